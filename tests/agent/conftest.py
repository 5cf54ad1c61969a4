from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

# The bytes 0x06 and 0xF1 as byte-level BPE writes them: SmolLM2 lacks these and others.
LACKING = ("\u0106", "\u00f1")

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
def lacking_tokenizer(world_texts: list[str]) -> Any:
    """A tokenizer like SmolLM2's: special tokens beside ChatML's, and one of them for bytes that it lacks."""
    from tasks.training.tokenizer import CHAT_TEMPLATE, END, PAD, START

    made = Tokenizer(models.BPE(unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    kept = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if letter not in LACKING]
    marks = [PAD, START, END, "<repo_name>", "<file_sep>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=marks, initial_alphabet=kept, limit_alphabet=len(kept), show_progress=False
    )
    made.train_from_iterator(world_texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2's tokenizer: byte-level BPE with many special tokens, and none of a protocol's tags."""
    from tasks.training.policies import smollm2_tokenizer

    return smollm2_tokenizer()
