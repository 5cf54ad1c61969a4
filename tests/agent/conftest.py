from typing import Any

import pytest

# Qwen3's template in small: schemas in the system's message, results of one turn inside one message of the user.
QWEN = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n\nYou may call one or more functions. Their signatures:\n<tools>' }}
    {%- for tool in tools %}{{- '\n' + tool | tojson }}{%- endfor %}
    {{- '\n</tools>\n\nA call is a JSON object inside <tool_call></tool_call>.<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""


@pytest.fixture(scope="session")
def qwen_tokenizer(world_texts: list[str]) -> Any:
    """A small tokenizer with the tags of tool calls and Qwen3's template."""
    from tasks.agent.protocols import Hermes
    from tasks.training.tokenizer import train_tokenizer

    made = train_tokenizer(world_texts, 512, Hermes().tokens)
    made.chat_template = QWEN
    return made


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2's tokenizer: byte-level BPE with many special tokens, and none of a protocol's tags."""
    from tasks.training.policies import smollm2_tokenizer

    return smollm2_tokenizer()
