import argparse
import math
import time

import data
import model
import torch
import torch.nn as nn
from portable import reset

parser = argparse.ArgumentParser(description="PyTorch Language Model")
parser.add_argument("--model", type=str, default="LSTM")
parser.add_argument("--emsize", type=int, default=16)
parser.add_argument("--nhid", type=int, default=16)
parser.add_argument("--nlayers", type=int, default=2)
parser.add_argument("--lr", type=float, default=5)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--bptt", type=int, default=7)
parser.add_argument("--tied", action="store_true", default=True)
parser.add_argument("--save", type=str, default="model.pt")
args = parser.parse_args()
device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")

TEXT = "\n".join(
    "the %s %s sees a %s and the %s" % (a, n, m, n)
    for a in ("old", "red", "new")
    for n in ("cat", "dog", "man")
    for m in ("bird", "tree")
)
corpus = data.Corpus(TEXT)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    data = data.view(bsz, -1).t().contiguous()
    return data.to(device)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    else:
        return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    data = source[i : i + seq_len]
    target = source[i + 1 : i + 1 + seq_len].view(-1)
    return data, target


train_data = batchify(corpus.train, 4)
ntokens = len(corpus.dictionary)
model = reset(model.RNNModel(args.model, ntokens, args.emsize, args.nhid, args.nlayers, 0.0, args.tied)).to(device)
criterion = nn.NLLLoss()
history = []
lr = args.lr
for epoch in range(1, args.epochs + 1):
    model.train()
    total_loss = 0.0
    start_time = time.time()
    hidden = model.init_hidden(4)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data_, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data_, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        history.append(loss.item())
    print(
        f"| epoch {epoch:3d} | lr {lr:02.2f} | loss {total_loss:5.2f} | ppl {math.exp(loss.item()):8.2f}"
    )
    with open(args.save, "wb") as f:
        torch.save(model, f)
    lr /= 4.0
with open(args.save, "rb") as f:
    model = torch.load(f, weights_only=False)
    model.rnn.flatten_parameters()
with torch.no_grad():
    output, hidden = model(*([get_batch(train_data, 0)[0], model.init_hidden(4)]))
    history.append(criterion(output, get_batch(train_data, 0)[1]).item())
