"""A faiss index over vectors of length 1, by inner product: exact, by lists, or by a graph.

flat compares every vector. ivf shares them out to lists by k-means and looks into the nearest few. hnsw walks a graph
(Malkov and Yashunin, 2018): the fastest by far on millions, and the slowest to build.

Equal vectors give equal bytes by flat, and by ivf on an equal machine: k-means is seeded, but its sums depend on how
BLAS shares them out. A graph that several threads build differs a little from time to time; OMP_NUM_THREADS=1 makes it
equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from tasks.retrieval.engines import threads
from tasks.retrieval.index import manifest

FILE = "index.faiss"
# faiss wants as many vectors for each list's centre, or warns that it knows too little.
_PER_LIST = 39
_ROWS = 65_536  # added at a time
_SEED = 1234


def build(vectors: np.ndarray, folder: Path, dense: Any) -> dict[str, Any]:
    """Write `folder / "index.faiss"`.

    Args:
        vectors: of length 1, shape (passages, dimensions), float32; may be memory-mapped.
        folder: exists.
        dense: the section `index.dense`.

    Returns:
        the kind and its parameters, with the number of lists that there are: as many as asked for, but no more than
        one to 39 vectors.
    """
    faiss.omp_set_num_threads(threads.count())
    count, dimensions = vectors.shape
    said: dict[str, Any] = {"faiss": dense.faiss}
    index: Any
    if dense.faiss == "ivf":
        said |= {"lists": max(1, min(dense.ivf.lists, count // _PER_LIST)), "probes": dense.ivf.probes}
        quantizer = faiss.IndexFlatIP(dimensions)
        index = faiss.IndexIVFFlat(quantizer, dimensions, said["lists"], faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = _SEED
        index.cp.spherical = True
        # As many as faiss would draw itself, so that the others need not be read.
        most = index.cp.max_points_per_centroid * said["lists"]
        chosen = np.sort(np.random.default_rng(_SEED).permutation(count)[:most])
        index.train(np.ascontiguousarray(vectors[chosen]))
    elif dense.faiss == "hnsw":
        said |= dense.hnsw.model_dump()
        index = faiss.IndexHNSWFlat(dimensions, dense.hnsw.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = dense.hnsw.ef_construction
    else:
        index = faiss.IndexFlatIP(dimensions)
    for start in range(0, count, _ROWS):
        index.add(np.ascontiguousarray(vectors[start : start + _ROWS]))
    faiss.write_index(index, str(folder / FILE))
    return said


def open_index(folder: Path, said: dict[str, Any]) -> faiss.Index:
    """The index of a folder, memory-mapped, set to look where `build` said.

    Raises:
        InputError: its file is missing or not whole.
    """
    faiss.omp_set_num_threads(threads.count())
    with manifest.reading(folder):
        index = faiss.read_index(str(folder / FILE), faiss.IO_FLAG_MMAP_IFC)
    if said["faiss"] == "ivf":
        faiss.ParameterSpace().set_index_parameter(index, "nprobe", said["probes"])
    elif said["faiss"] == "hnsw":
        faiss.ParameterSpace().set_index_parameter(index, "efSearch", said["ef_search"])
    return index
