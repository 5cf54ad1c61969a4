"""2WikiMultihopQA: HotpotQA's form, with chains of up to four passages and the facts that connect them."""

from __future__ import annotations

from tasks.qa.sources import hotpotqa


class Source(hotpotqa.Source):
    """Rows as in HotpotQA, with `evidences[[subject, relation, object]]` beside them, which are not needed."""

    reader = "2wikimultihopqa"
    licence = "Apache-2.0"
    upstream = (
        'Ho et al., "Constructing A Multi-hop QA Dataset" (COLING 2020), https://github.com/Alab-NII/2wikimultihop'
    )
