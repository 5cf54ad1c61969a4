import sys
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.service.caching import ENTRY, Cache

KEY = sys.getsizeof("3 False q")
ITEMS = st.tuples(st.sampled_from(["a", "b", "1 a", "True a"]), st.integers(1, 2), st.booleans())


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(2 * (ENTRY + KEY + 1))
    first, second, third = (("q", topk, False) for topk in (1, 2, 3))
    cache.put(first, b"1")
    cache.put(second, b"2")
    assert cache.get(first) == b"1"
    cache.put(third, b"3")
    assert [cache.get(item) for item in (first, second, third)] == [b"1", None, b"3"]


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache = Cache(ENTRY + KEY)
    cache.put(("q", 1, False), b"1")
    assert cache.get(("q", 1, False)) is None


def test_what_was_asked_takes_room_too() -> None:
    cache = Cache(100_000)
    queries = [str(n) + "\U0001f600" * 8000 for n in range(10)]  # 32 KB each
    for query in queries:
        cache.put((query, 3, False), b"[]")
    assert [cache.get((query, 3, False)) for query in queries] == [None] * 7 + [b"[]"] * 3


@given(st.lists(st.tuples(ITEMS, st.one_of(st.none(), st.binary(max_size=2000)))), st.integers(0, 5 * ENTRY))
def test_it_is_the_newest_that_fit(steps: list, size: int) -> None:
    cache, model = Cache(size), OrderedDict()
    for item, content in steps:
        if content is None:
            assert cache.get(item) == model.get(item)
            if item in model:
                model.move_to_end(item)
            continue
        cache.put(item, content)
        model.pop(item, None)
        model[item] = content
        while sum(ENTRY + sys.getsizeof(f"{k} {s} {q}") + len(one) for (q, k, s), one in model.items()) > size:
            model.popitem(last=False)
