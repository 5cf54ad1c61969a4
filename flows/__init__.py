"""The flow over DVC's stages, and the services to watch it with."""

# Prefect reads its surroundings when it is imported: they are set before any module of this package is.
from flows import environment as environment
