"""Chat templates of the common families, as small as they can be and as strict as the real ones.

Where a real template refuses a talk, so do these; and each refuses tools that it was not given as templates know them.
"""

from __future__ import annotations

from typing import Final

_TOOLS: Final = (
    "{% if tools %}{% for t in tools %}"
    "{% if t.type != 'function' or not t.function.name or t.function.parameters is not mapping %}"
    "{{ raise_exception('not a tool') }}{% endif %}{% endfor %}"
)

# Hermes and Qwen: tools and their results between tags, arguments as an object.
HERMES: Final = (
    _TOOLS + "{{ '<|im_start|>system\\n<tools>' }}{% for t in tools %}{{ t | tojson }}{% endfor %}"
    "{{ '</tools>\\n<tool_call></tool_call><|im_end|>\\n' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}"
    "{% if not m.name %}{{ raise_exception('a result needs a name') }}{% endif %}"
    "{{ '<|im_start|>user\\n<tool_response>' + m.content + '</tool_response><|im_end|>\\n' }}"
    "{% else %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
    "{% for c in m.tool_calls or [] %}"
    "{% if c.function.arguments is not mapping %}{{ raise_exception('not an object') }}{% endif %}"
    '{{ \'<tool_call>{"name": "\' + c.function.name + \'", "arguments": \' }}{{ c.function.arguments | tojson }}'
    "{{ '}</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\\n' }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# Qwen 3: thoughts that can be switched off, and those of earlier turns taken.
_PLAIN_TURN: Final = (
    "{{ '<|im_start|>' + m.role + '\\n' }}"
    "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{ m.content + '<|im_end|>\\n' }}"
)
THINKS: Final = (
    "{% for m in messages %}" + _PLAIN_TURN + "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
    "{% endif %}"
)
# DeepSeek: the template opens the thought, and nothing switches it off.
OPENS: Final = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content.split('</think>')[-1] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)

# Mistral: ids of 9 letters or digits, in calls and in results.
MISTRAL: Final = (
    _TOOLS + "{{ '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'user' or m.role == 'system' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}"
    "{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids have 9 characters') }}{% endif %}"
    "{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}"
    "{% elif m.tool_calls %}{{ '[TOOL_CALLS]' }}{% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('ids have 9 characters') }}{% endif %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}"
)

# Llama 3: one call in each turn.
LLAMA3: Final = (
    _TOOLS + '{{ \'Answer {"name": a function, "parameters": its arguments}. \' }}{{ tools | tojson }}{% endif %}'
    "{% for m in messages %}"
    "{% if m.tool_calls %}"
    "{% if m.tool_calls | length != 1 %}{{ raise_exception('single tool-calls only') }}{% endif %}"
    '{{ \'<|im_start|>assistant\\n{"name": "\' + m.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{ m.tool_calls[0].function.arguments | tojson }}{{ '}<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
