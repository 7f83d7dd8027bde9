"""Conversations as text: the chat templates of Hugging Face's folders, Jinja in a sandbox with a budget (extra `text`).

A template comes from a stranger: it cannot reach Python's insides (jinja2's sandbox), and every loop, call, sum, comparison
and piece of output costs as much as it handles. What costs more than the budget, however small it looks, is refused.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from ...errors import OptionError
from ...runtime.extras import extra

__all__ = ["TemplateError", "render_chat"]

BASE_BUDGET = 10_000_000
BUDGET_A_CHARACTER = 100  # of the conversation, besides
ELEMENT, PASS, CALL = 10, 100, 300  # what an element of a list, a pass through a loop, a call cost; a character costs 1
LONGEST_TEMPLATE = 1_000_000
LARGEST_NUMBER = 1_000_000  # of an argument: widths, counts
WIDE = re.compile(r"\d{6,}")  # a width in a format
SLOW_FILTERS = ("urlize", "pprint", "sum", "xmlattr", "random")  # slower than what they read is long
SLOW_METHODS = ("translate", "maketrans", "format_map")


class TemplateError(OptionError):
    """A chat template that is broken, refuses the conversation, or asks for more than its budget."""


def render_chat(template: str, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
    """The text that the template makes of the messages, each with a role and a content.

    variables: what else the template may read: add_generation_prompt, tools, documents, bos_token …

    >>> render_chat("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", [{"role": "user", "content": "Hi"}])
    '<user>Hi'
    """
    data = plain({"messages": messages, **variables})
    budget = _Budget(BASE_BUDGET + BUDGET_A_CHARACTER * _size(data, {}))
    token = _BUDGET.set(budget)
    try:
        if not isinstance(template, str) or len(template) > LONGEST_TEMPLATE:
            raise TemplateError(f"chat template: expected a text of at most {LONGEST_TEMPLATE} characters")
        compiled = _compiled(template)
        pieces = []
        for piece in compiled.generate(**data):
            budget.spend(len(piece))
            pieces.append(piece)
        return "".join(pieces)
    except (TemplateError, ImportError):
        raise
    except RecursionError:
        raise TemplateError("chat template: it is nested too deeply, or calls itself without end") from None
    except Exception as error:  # jinja2's, and whatever the template's own operations raise
        raise TemplateError(f"chat template: {type(error).__name__}: {str(error)[:300]}") from None
    finally:
        _BUDGET.reset(token)


def plain(value: Any, depth: int = 0) -> Any:
    """A copy of nested lists and dictionaries of texts and numbers: nothing else goes into a template."""
    if depth > 100:
        raise OptionError("conversation: nested more than 100 levels deep")
    if isinstance(value, Mapping):
        return {str(key): plain(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry, depth + 1) for entry in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise OptionError(f"conversation: expected texts, numbers, lists and dictionaries, got a {type(value).__name__}")


# ------------------------------------------------------------------------------------------- the budget


class _Budget:
    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TemplateError(
                f"chat template: it costs more than {self.most} steps, which no honest template does for this conversation"
            )


_BUDGET: ContextVar[_Budget] = ContextVar("budget of a chat template")


def _paid(value: Any) -> Any:
    """The value, its size paid for."""
    _BUDGET.get().spend(_size(value, {}))
    return value


def _size(value: Any, known: dict[int, int]) -> int:
    """What it costs to look at a value as it would be printed: what is in it twice counts twice."""
    if isinstance(value, str):
        return ELEMENT + len(value)
    inside = None if type(value).__module__ == "jinja2.runtime" else _inside(value)
    if inside is None:
        return ELEMENT + (value.bit_length() if isinstance(value, int) else 0)
    if id(value) not in known:
        known[id(value)] = 0  # until it is known: a value may hold itself
        known[id(value)] = ELEMENT + sum(_size(entry, known) for entry in inside)
    return known[id(value)]


def _inside(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if type(value).__name__ != "Namespace":
        return None
    attributes = value._Namespace__attrs  # jinja2's namespace prints what it holds
    return [*attributes, *attributes.values()]


def _counted(values: Any, cost: int) -> Iterator[Any]:
    """The values of a loop, each pass paid for."""
    budget = _BUDGET.get()
    for value in values:
        budget.spend(cost)
        yield value


def _joined(*parts: Any) -> str:
    """What `~` makes."""
    return "".join(str(_paid(part)) for part in parts)


def _check_call(function: Any, inputs: Sequence[Any]) -> None:
    """Refuse what would be far larger than what goes in: wide formats, paddings, replacements, joins."""
    method = getattr(function, "__wrapped__", function)  # the sandbox has its own format
    name = getattr(method, "__name__", "").removeprefix("sync_").removeprefix("do_")
    subject = getattr(method, "__self__", None)
    given = [subject, *inputs] if isinstance(subject, str) else list(inputs)
    texts = [x for x in given if isinstance(x, str)]
    large = [x for x in inputs if isinstance(x, int) and abs(x) > LARGEST_NUMBER]
    if large or (name == "format" and any(map(WIDE.search, texts))):
        raise TemplateError(f"chat template: the number {large[0] if large else 'in a format'} is too large")
    for value in given:
        _paid(value)
    if name == "replace" and len(texts) > 2:
        _BUDGET.get().spend(texts[0].count(texts[1]) * len(texts[2]))
    if name == "join" and texts:
        _BUDGET.get().spend(len(texts[0]) * max((len(x) for x in inputs if isinstance(x, Sequence)), default=0))


def _check_operation(operator: str, left: Any, right: Any) -> None:
    """Refuse products, powers and formats that would be huge."""
    numbers = isinstance(left, int) and isinstance(right, int)
    if operator == "**" and numbers and left.bit_length() * abs(right) > 10_000:
        raise TemplateError(f"chat template: the power {left} ** {right} is too large")
    if operator == "*" and not numbers:
        times = left if isinstance(left, int) else right if isinstance(right, int) else 1
        _BUDGET.get().spend(max(times, 0) * _size(right if times is left else left, {}))
    if operator == "%" and isinstance(left, str) and (WIDE.search(left) or "*" in left):
        raise TemplateError("chat template: the number in a format is too large")
    _paid(left)
    _paid(right)


# ------------------------------------------------------------------------------------------- Jinja


@functools.lru_cache(maxsize=32)
def _compiled(template: str) -> Any:
    return _environment_class()().from_string(template)


@functools.cache
def _environment_class() -> type:
    """jinja2's sandbox with a budget; made when it is first asked for."""
    jinja2 = extra("jinja2", "chat templates need")
    from jinja2 import nodes, sandbox
    from jinja2.ext import Extension, loopcontrols
    from jinja2.runtime import LoopContext, Macro

    class Generation(Extension):
        """{% generation %} … {% endgeneration %} around what the model has said: printed as it stands."""

        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    class Budgeted(sandbox.ImmutableSandboxedEnvironment):
        """For one template."""

        intercepted_binops = frozenset(sandbox.SandboxedEnvironment.default_binop_table)
        text_length = 0  # what a macro may print without an expression: all text of the template

        def __init__(self) -> None:
            extensions = [loopcontrols, Generation]
            # a finalize that is told the environment is never run before its time, for constants
            finalize = jinja2.pass_environment(lambda environment, value: _paid(value))
            blocks = {"trim_blocks": True, "lstrip_blocks": True}
            super().__init__(**blocks, extensions=extensions, optimized=False, finalize=finalize)
            self.paid, self.counted, self.joined = _paid, _counted, _joined
            del self.globals["lipsum"]
            self.globals |= {"raise_exception": _refuse, "strftime_now": _now}
            filters = {name: filter for name, filter in self.filters.items() if name not in SLOW_FILTERS}
            self.filters = {name: _checked(filter) for name, filter in {**filters, "tojson": _tojson}.items()}
            self.tests = {name: _checked(test) for name, test in self.tests.items()}

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            tree = super()._parse(source, name, filename)
            self.text_length = sum(len(data.data) for data in tree.find_all(nodes.TemplateData))
            return _priced(tree, nodes)

        def call(self, context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            if function in (_counted, _paid, _joined):
                return function(*args)
            printed = self.text_length if isinstance(function, (Macro, LoopContext)) else 0
            _BUDGET.get().spend(CALL + printed)
            _check_call(function, [*args, *kwargs.values()])
            return _paid(super().call(context, function, *args, **kwargs))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operation(operator, left, right)
            return _paid(super().call_binop(context, operator, left, right))

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in SLOW_METHODS and super().is_safe_attribute(obj, attr, value)

    return Budgeted


def _priced(tree: Any, nodes: Any) -> Any:
    """The template with calls that pay for loops, joined texts, comparisons, slices and literals."""

    def called(name: str, *inputs: Any) -> Any:
        return nodes.Call(nodes.EnvironmentAttribute(name), list(inputs), [], None, None)

    def changed(node: Any) -> Any:
        for field, value in node.iter_fields():
            if isinstance(value, nodes.Node):
                setattr(node, field, changed(value))
            elif isinstance(value, list):
                setattr(node, field, [changed(x) if isinstance(x, nodes.Node) else x for x in value])
        if isinstance(node, nodes.For):
            printed = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            node.iter = called("counted", node.iter, nodes.Const(PASS + printed))
        elif isinstance(node, nodes.Compare):
            node.expr = called("paid", node.expr)
            for operand in node.ops:
                operand.expr = called("paid", operand.expr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            node.node = called("paid", node.node)
        if isinstance(node, nodes.Concat):
            return called("joined", *node.nodes)
        made = isinstance(node, (nodes.List, nodes.Dict)) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
        return called("paid", node) if made else node

    return nodes.Template([changed(part) for part in tree.body], lineno=1).set_environment(tree.environment)


def _checked(function: Any) -> Any:
    """A filter or a test that pays for what it reads and makes."""

    @functools.wraps(function)
    def run(*inputs: Any, **named: Any) -> Any:
        _check_call(function, [*inputs, *named.values()])
        _BUDGET.get().spend(PASS)
        return _paid(function(*inputs, **named))

    return run


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise TemplateError(f"chat template: {message}")


def _now(format: str) -> str:
    return datetime.now().strftime(format[:100])
