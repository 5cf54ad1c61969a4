"""The retrieval service: Search-R1's HTTP API over worker processes that hold the index; see docs/retrieval-server.md.

One process reads requests, joins queries into batches and remembers answers; the workers search, and write each
query's documents as JSON. `server.py` is the application, `pool.py` the workers, `nursery.py` forks them.
"""
