"""Sequence to sequence with attention: packed GRU encoder, GRUCell decoder, masked scores, teacher forcing, padding."""

import numpy as np

PAD, BEGIN, END, SYMBOLS = 0, 1, 2, 12


def data(torch):
    """Sources of different lengths; the target is the source backwards."""
    rng = np.random.default_rng(3)
    lengths = np.array([6, 5, 5, 4, 3, 2])
    source = np.full((6, 6), PAD)
    target = np.full((6, 8), PAD)
    for i, n in enumerate(lengths):
        words = rng.integers(3, SYMBOLS, n)
        source[i, :n] = words
        target[i, : n + 2] = [BEGIN, *words[::-1], END]
    return torch.from_numpy(source), torch.from_numpy(lengths), torch.from_numpy(target)


def build(torch):
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.embedding = nn.Embedding(SYMBOLS, width, padding_idx=PAD)
            self.gru = nn.GRU(width, width, bidirectional=True)

        def forward(self, source, lengths):
            embedded = self.embedding(source.t())
            packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths)
            outputs, hidden = self.gru(packed)
            outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs)
            return outputs.transpose(0, 1), torch.tanh(hidden[0] + hidden[1])

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.query = nn.Linear(width, width, bias=False)
            self.key = nn.Linear(2 * width, width, bias=False)
            self.score = nn.Linear(width, 1, bias=False)

        def forward(self, hidden, memory, mask):
            energy = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + self.key(memory))).squeeze(-1)
            weights = torch.softmax(energy.masked_fill(~mask, float("-inf")), dim=-1)
            return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)

    class Translator(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.encoder, self.attention = Encoder(width), Attention(width)
            self.embedding = nn.Embedding(SYMBOLS, width, padding_idx=PAD)
            self.cell = nn.GRUCell(3 * width, width)
            self.output = nn.Linear(3 * width, SYMBOLS)

        def forward(self, source, lengths, target):
            memory, hidden = self.encoder(source, lengths)
            mask = source != PAD
            logits = []
            for t in range(target.size(1) - 1):
                context = self.attention(hidden, memory, mask)
                hidden = self.cell(torch.cat([self.embedding(target[:, t]), context], dim=-1), hidden)
                logits.append(self.output(torch.cat([hidden, context], dim=-1)))
            return torch.stack(logits, dim=1)

    return Translator()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    source, lengths, target = data(torch)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        model.zero_grad()
        logits = model(source, lengths, target)
        loss = criterion(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
