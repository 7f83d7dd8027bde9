"""A two-layer LSTM language model: Embedding, truncated back-propagation with a carried state, gradient clipping."""

import numpy as np

VOCABULARY, BATCH, TIME = 20, 4, 8


def data(torch):
    """A text in which each symbol mostly follows from the one before."""
    rng = np.random.default_rng(2)
    follower = rng.permutation(VOCABULARY)
    text = np.zeros((BATCH, 10 * TIME + 1), np.int64)
    for t in range(1, text.shape[1]):
        jump = rng.random(BATCH) < 0.1
        text[:, t] = np.where(jump, rng.integers(0, VOCABULARY, BATCH), follower[text[:, t - 1]])
    return torch.from_numpy(text)


def build(torch):
    nn = torch.nn

    class LanguageModel(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.decoder = nn.Linear(width, VOCABULARY)
            self.decoder.weight = self.embedding.weight

        def forward(self, tokens, state=None):
            hidden, state = self.lstm(self.embedding(tokens), state)
            return self.decoder(hidden), state

    return LanguageModel()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    text = data(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    losses, state = [], None
    for step in range(steps):
        i = TIME * (step % 10)
        if i == 0:
            state = None
        tokens, targets = text[:, i : i + TIME], text[:, i + 1 : i + TIME + 1]
        logits, state = model(tokens, state)
        state = tuple(s.detach() for s in state)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses
