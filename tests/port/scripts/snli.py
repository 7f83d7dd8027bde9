# Premise and hypothesis through a bidirectional LSTM, after pytorch/examples/snli; variable lengths are packed
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence, unpad_sequence

from portable import labels, reset


class Bottle(nn.Module):
    def forward(self, input):
        if len(input.size()) <= 2:
            return super(Bottle, self).forward(input)
        size = input.size()[:2]
        out = super(Bottle, self).forward(input.view(size[0] * size[1], -1))
        return out.view(size[0], size[1], -1)


class Linear(Bottle, nn.Linear):
    pass


class Encoder(nn.Module):
    def __init__(self, config):
        super(Encoder, self).__init__()
        self.config = config
        self.rnn = nn.LSTM(input_size=config.d_proj, hidden_size=config.d_hidden, num_layers=config.n_layers, bidirectional=config.birnn)

    def forward(self, inputs):
        batch_size = int(inputs.batch_sizes[0])
        state_shape = self.config.n_cells, batch_size, self.config.d_hidden
        h0 = c0 = torch.zeros(state_shape)
        outputs, (ht, ct) = self.rnn(inputs, (h0, c0))
        return ht[-1] if not self.config.birnn else ht[-2:].transpose(0, 1).contiguous().view(batch_size, -1)


class SNLIClassifier(nn.Module):
    def __init__(self, config):
        super(SNLIClassifier, self).__init__()
        self.config = config
        self.embed = nn.Embedding(config.n_embed, config.d_embed, padding_idx=0)
        self.projection = Linear(config.d_embed, config.d_proj)
        self.encoder = Encoder(config)
        self.relu = nn.ReLU()
        seq_in = 2 * config.d_hidden * (2 if config.birnn else 1)
        self.out = nn.Sequential(Linear(seq_in, seq_in), self.relu, Linear(seq_in, config.d_out))

    def encode(self, sentences):
        lengths = torch.tensor([len(s) for s in sentences])
        embed = self.relu(self.projection(self.embed(pad_sequence(sentences))))
        packed = nn.utils.rnn.pack_padded_sequence(embed, lengths, enforce_sorted=False)
        return self.encoder(packed)

    def forward(self, premise, hypothesis):
        return self.out(torch.cat([self.encode(premise), self.encode(hypothesis)], 1))


class Config:
    n_embed, d_embed, d_proj, d_hidden, n_layers, birnn, d_out = 20, 8, 8, 10, 2, True, 3
    n_cells = n_layers * 2


model = reset(SNLIClassifier(Config()), scale=1.5)
with torch.no_grad():
    model.embed.weight[0].zero_()
sentences = [1 + labels(3 + k % 5, 19, seed=k) for k in range(24)]
premises, hypotheses, answer = sentences[:12], sentences[12:], labels(12, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "min", patience=1, factor=0.5)
history = []
for _ in range(8):
    model.train()
    opt.zero_grad()
    scores = model(premises, hypotheses)
    loss = nn.functional.cross_entropy(scores, answer)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    opt.step()
    scheduler.step(loss)
    history.append(loss.item())
assert not model.embed.weight.grad[0].any()
packed = pack_sequence(premises, enforce_sorted=False)
back, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1)
assert all(torch.equal(a, b) for a, b in zip(unpad_sequence(back, lengths, batch_first=True), premises))
