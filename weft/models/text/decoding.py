"""Sequences written token by token: greedy, sampled, or by beam search; for every model that can make one step.

    step(tokens, state) → logits, state

tokens (B, T) int64 are those the model has not seen yet: the beginnings at first, then one new token a row. `state` is
None at first, or what the model starts from (an encoded source, say), then what the last step returned: a tree of
tensors whose first dimension is the batch. logits (B, V) score the token after the last one. `recomputing` makes a step
of a model that keeps no state; with the cache of fixed capacity in `cache` a step has the same sizes for every token, so
that it can be compiled. Nothing is recorded; call `model.eval()` first. **rules are those of `processors.Rules`: tokens
that are forced or forbidden, penalties, a least length.

>>> greedy_search(model.step, weft.tensor([[5, 7]]), max_new_tokens=3, eos_token_id=2)
tensor([[5, 7, 9, 4, 2]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft

from ...errors import OptionError, ShapeError
from ...tape.modes import no_grad
from ...tensor import Tensor
from ...utils.pytree import tree_map
from .processors import Ends, Processor, Rules, among, keep_top_k, keep_top_p
from .streaming import Streamer

__all__ = [
    "BeamResult",
    "Step",
    "beam_search",
    "generate",
    "greedy_search",
    "recomputing",
    "sample",
]

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
Stopping = Callable[[Tensor], Tensor]
NEVER = -1e9  # the score of what must not be chosen; finite, so that sums and penalties of it stay numbers


class BeamResult(NamedTuple):
    """sequences (B · returned, T) padded at the end, scores (B · returned,) = Σ log p / length^penalty."""

    sequences: Tensor
    scores: Tensor


# ------------------------------------------------------------------------------------------- one token after another


def greedy_search(
    step: Step,
    tokens: Tensor,
    state: Any = None,
    *,
    max_new_tokens: int = 20,
    eos_token_id: Ends = None,
    pad_token_id: int | None = None,
    streamer: Streamer | None = None,
    stopping: Stopping | None = None,
    **rules: Any,
) -> Tensor:
    """The most probable token, again and again, until every row has an end token. Shape: (B, T) → (B, ≤ T + new)

    streamer: told of tokens as they come. stopping: all tokens so far (B, T) → which rows end here, (B,) bool.
    """
    ends = _checked(tokens, max_new_tokens, eos_token_id)
    process = Rules(**rules).processor(tokens.shape[1], max_new_tokens, ends)

    def choose(logits: Tensor, seen: Tensor) -> Tensor:
        return process(logits, seen).argmax(-1)

    return _extend(step, tokens, state, choose, max_new_tokens, ends, pad_token_id, streamer, stopping)


def sample(
    step: Step,
    tokens: Tensor,
    state: Any = None,
    *,
    max_new_tokens: int = 20,
    eos_token_id: Ends = None,
    pad_token_id: int | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: weft.Generator | None = None,
    streamer: Streamer | None = None,
    stopping: Stopping | None = None,
    **rules: Any,
) -> Tensor:
    """Tokens drawn from softmax(logits / temperature), cut to the top_k best and then to the nucleus of mass top_p.

    top_k = 0 and top_p = 1 cut nothing; streamer, stopping: see `greedy_search`. Shape: (B, T) → (B, ≤ T + new)
    """
    if temperature <= 0:
        raise OptionError(f"sample: temperature must be greater than 0, got {temperature}; 0 is greedy_search")

    ends = _checked(tokens, max_new_tokens, eos_token_id)
    process = Rules(**rules).processor(tokens.shape[1], max_new_tokens, ends)

    def choose(logits: Tensor, seen: Tensor) -> Tensor:
        logits = process(logits, seen) / temperature
        chances = keep_top_p(keep_top_k(logits, top_k), top_p).softmax(-1)
        return weft.multinomial(chances, 1, generator=generator).squeeze(-1)  # (B, 1) → (B,)

    return _extend(step, tokens, state, choose, max_new_tokens, ends, pad_token_id, streamer, stopping)


@no_grad()
def _extend(
    step: Step,
    tokens: Tensor,
    state: Any,
    choose: Processor,
    max_new_tokens: int,
    ends: Sequence[int],
    pad_token_id: int | None,
    streamer: Streamer | None,
    stopping: Stopping | None,
) -> Tensor:
    """Append choose(logits, tokens so far) until all rows have ended; ended rows get padding."""
    padding, may_end = _padding(pad_token_id, ends), bool(ends) or stopping is not None
    if streamer is not None:
        streamer.put(tokens)
    ended, new = weft.zeros(len(tokens), dtype=weft.bool), tokens
    for _ in range(max_new_tokens):
        logits, state = _scored(step, new, state)
        chosen = choose(logits, tokens)
        chosen = chosen.masked_fill(ended, padding) if may_end else chosen
        new = chosen.unsqueeze(-1)  # (B, 1)
        tokens = weft.cat([tokens, new], -1)
        if streamer is not None:
            streamer.put(chosen)
        ended = ended | among(chosen, ends)
        if stopping is not None:
            ended = ended | stopping(tokens)
        if may_end and bool(ended.all()):
            break
    if streamer is not None:
        streamer.end()
    return tokens


# ------------------------------------------------------------------------------------------- beam search


@no_grad()
def beam_search(
    step: Step,
    tokens: Tensor,
    state: Any = None,
    *,
    num_beams: int = 4,
    max_new_tokens: int = 20,
    eos_token_id: Ends = None,
    pad_token_id: int | None = None,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    num_return_sequences: int = 1,
    **rules: Any,
) -> BeamResult:
    """The best of `num_beams` continuations that are followed side by side; score = Σ log p / length^length_penalty.

    length counts new tokens. A continuation is finished at an end token or at max_new_tokens. early_stopping: True
    ends with num_beams finished ones; False when the best running one, scored at its present length, is worse than all
    finished; "never" takes the longest possible length there if length_penalty > 0. The rules are those of Hugging
    Face's generate. Shape: (B, T) → (B · num_return_sequences, ≤ T + new), best first
    """
    ends = _checked(tokens, max_new_tokens, eos_token_id)
    process = Rules(**rules).processor(tokens.shape[1], max_new_tokens, ends)
    _check_beams(num_beams, num_return_sequences, early_stopping)
    batch, prompt = tokens.shape
    logits, state = _scored(step, tokens, state)
    rows = weft.arange(batch).repeat_interleave(num_beams)  # beam k of example b is row b · beams + k
    logits, state = logits[rows], _rearranged(state, rows)
    running = tokens[rows].unflatten(0, (batch, num_beams))  # (B, K, T)
    scores = weft.full((batch, num_beams), NEVER)
    scores[:, 0] = 0  # all beams are the same at first: only one of them counts
    best = _Best(batch, num_beams, prompt, max_new_tokens, length_penalty, early_stopping, _padding(pad_token_id, ends))
    for length in range(1, max_new_tokens + 1):
        found = process(logits.log_softmax(-1), running.flatten(0, 1))  # (B·K, V)
        total = (scores.unsqueeze(-1) + found.unflatten(0, (batch, num_beams))).flatten(1)  # (B, K · V)
        # so many that num_beams are left to go on with if all the best have ended
        top = total.topk(min(max(2, 1 + len(ends)) * num_beams, total.shape[1]))
        beam, token = top.indices // found.shape[-1], top.indices % found.shape[-1]
        candidates = weft.cat([_beams(running, beam), token.unsqueeze(-1)], -1)  # (B, 2K, T + length)
        ended = among(token, ends) | (length == max_new_tokens)
        scores, kept = (top.values + ended * NEVER).topk(num_beams)
        running = _beams(candidates, kept)
        best.enter(candidates, top.values, ended, length)
        if bool(ended.all()) or best.settled(scores, length):
            break
        rows = (_beams(beam, kept) + weft.arange(batch).unsqueeze(-1) * num_beams).flatten()
        logits, state = _scored(step, running[..., -1].reshape(-1, 1), _rearranged(state, rows))
    return best.result(num_return_sequences)


class _Best:
    """The finished continuations of each example, the best first."""

    def __init__(
        self, batch: int, beams: int, prompt: int, most: int, penalty: float, early: bool | str, padding: int
    ) -> None:
        self.beams, self.prompt, self.most, self.penalty, self.early = beams, prompt, most, penalty, early
        self.padding = padding
        self.sequences = weft.full((batch, beams, prompt + most), padding, dtype=weft.int64)
        self.lengths = weft.zeros(batch, beams, dtype=weft.int64)
        self.scores = weft.full((batch, beams), NEVER)
        self.taken = weft.zeros(batch, beams, dtype=weft.bool)  # places that hold something
        self.open = weft.ones(batch, 1, dtype=weft.bool)  # examples that may still find something better

    def enter(self, candidates: Tensor, scores: Tensor, ended: Tensor, length: int) -> None:
        """Take in those that have just ended, if they are among the `beams` best candidates."""
        count = candidates.shape[1]
        just = ended & (weft.arange(count) < self.beams)
        barred = ~just | ~self.open
        if self.early is True:
            barred = barred | self.taken.all(-1, keepdim=True)
        scores = weft.cat([self.scores, scores / length**self.penalty + barred * NEVER], 1)
        room = self.sequences.shape[-1] - candidates.shape[-1]
        padded = weft.nn.functional.pad(candidates, (0, room), value=self.padding)
        self.scores, order = scores.topk(self.beams)
        self.sequences = _beams(weft.cat([self.sequences, padded], 1), order)
        self.taken = _beams(weft.cat([self.taken, just], 1), order)
        lengths = weft.full((len(candidates), count), length, dtype=weft.int64)
        self.lengths = _beams(weft.cat([self.lengths, lengths], 1), order)

    def settled(self, running: Tensor, length: int) -> bool:
        """Whether nothing that is still running can become one of the best."""
        reach = self.most if self.early == "never" and self.penalty > 0 else length
        hope = running[:, :1] / reach**self.penalty
        worst = weft.where(self.taken, self.scores.amin(1, keepdim=True), NEVER)
        self.open = self.open & (hope > worst).any(-1, keepdim=True)
        return not bool(self.open.any()) or (self.early is True and bool(self.taken.all()))

    def result(self, count: int) -> BeamResult:
        longest = self.prompt + int(self.lengths[:, :count].max())
        return BeamResult(self.sequences[:, :count, :longest].flatten(0, 1), self.scores[:, :count].flatten())


def _beams(x: Tensor, index: Tensor) -> Tensor:
    """x[b, index[b, k]]. Shape: (B, K, *), (B, J) → (B, J, *)"""
    return x[weft.arange(len(x)).unsqueeze(-1), index]


def _rearranged(state: Any, rows: Tensor) -> Any:
    """The state whose row i is row rows[i] of the given one."""
    return tree_map(lambda x: x[rows] if isinstance(x, Tensor) and x.ndim else x, state)


# ------------------------------------------------------------------------------------------- doors


class Seen(NamedTuple):
    """The state of `recomputing`: all tokens so far (B, T), and what was given to start from."""

    tokens: Tensor
    context: Any = None


def recomputing(forward: Callable[..., Tensor]) -> Step:
    """A step for a model that keeps no state: each runs `forward` over all tokens so far, (B, T) → (B, T, V).

    A state that is given at first (with the batch first) goes to it as well, forward(tokens, state).
    """

    def step(tokens: Tensor, state: Any) -> tuple[Tensor, Seen]:
        if isinstance(state, Seen):
            state = Seen(weft.cat([state.tokens, tokens], -1), state.context)
        else:
            state = Seen(tokens, state)
        scores = forward(state.tokens) if state.context is None else forward(*state)
        return scores[:, -1], state

    return step


def generate(
    step: Step,
    tokens: Tensor,
    state: Any = None,
    *,
    do_sample: bool = False,
    num_beams: int = 1,
    num_return_sequences: int = 1,
    **options: Any,
) -> Tensor:
    """`sample` with do_sample, `beam_search` with num_beams > 1, else `greedy_search`: the sequences alone.

    num_return_sequences: how many for each row, of samples and beams. Shape: (B, T) → (B · returned, ≤ T + new)
    """
    if do_sample and num_beams > 1:
        raise OptionError("generate: do_sample and num_beams > 1 exclude each other")
    watched = [name for name in ("streamer", "stopping") if options.get(name) is not None]
    if watched and num_beams > 1:
        raise OptionError(
            f"generate: {', '.join(watched)} (stop_strings) needs num_beams=1: beams are not written in order"
        )
    if num_beams > 1:
        options = {name: value for name, value in options.items() if name not in ("streamer", "stopping")}
        options |= {"num_beams": num_beams, "num_return_sequences": num_return_sequences}
        return beam_search(step, tokens, state, **options).sequences
    if not do_sample and num_return_sequences != 1:
        raise OptionError(f"generate: greedy search has one result, got num_return_sequences={num_return_sequences}")
    if not do_sample:
        return greedy_search(step, tokens, state, **options)
    if num_return_sequences < 1:
        raise OptionError(f"generate: expected num_return_sequences of 1 or more, got {num_return_sequences}")
    if num_return_sequences > 1:
        rows = weft.arange(len(tokens)).repeat_interleave(num_return_sequences)
        tokens, state = tokens[rows], _rearranged(state, rows)
    return sample(step, tokens, state, **options)


# ------------------------------------------------------------------------------------------- checks


def _scored(step: Step, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    logits, state = step(tokens, state)
    if logits.ndim != 2 or len(logits) != len(tokens):
        raise ShapeError(
            f"step: expected logits ({len(tokens)}, V) for tokens {tuple(tokens.shape)}, got {tuple(logits.shape)}; "
            "return the scores after the last token alone, logits[:, -1]"
        )
    return logits, state


def _checked(tokens: Tensor, max_new_tokens: int, eos_token_id: Ends) -> list[int]:
    """The end tokens as a list."""
    if tokens.ndim != 2 or not tokens.shape[1] or tokens.is_floating_point():
        raise ShapeError(f"tokens: expected integers (B, T) with T >= 1, got {tokens.dtype} {tuple(tokens.shape)}")
    if max_new_tokens < 0:
        raise OptionError(f"max_new_tokens: expected 0 or more, got {max_new_tokens}")
    return [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or ())


def _check_beams(num_beams: int, returned: int, early_stopping: bool | str) -> None:
    if not 1 <= returned <= num_beams:
        raise OptionError(
            f"beam_search: expected 1 <= num_return_sequences <= num_beams, got {returned} and {num_beams}"
        )
    if early_stopping not in (True, False, "never"):
        raise OptionError(f"beam_search: early_stopping must be True, False or 'never', got {early_stopping!r}")


def _padding(pad_token_id: int | None, ends: Sequence[int]) -> int:
    """What follows an end: the padding token, else the end token itself."""
    return pad_token_id if pad_token_id is not None else (ends[0] if ends else 0)
