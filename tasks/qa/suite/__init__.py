"""What is expected of a table of questions, checked in one pass over its rows and by Great Expectations."""

import os

# Great Expectations reads this when it is imported.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
