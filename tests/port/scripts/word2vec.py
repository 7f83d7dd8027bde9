import random
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from portable import reset

random.seed(0)
text = ("the quick brown fox jumps over the lazy dog while the lazy cat sleeps near the quick river " * 4).split()
counts = Counter(text)
vocab = sorted(counts)
word2id = {w: i for i, w in enumerate(vocab)}


class Word2vecDataset(IterableDataset):
    def __init__(self, words, window_size):
        super().__init__()
        self.words, self.window_size = words, window_size
        freq = np.array([counts[w] for w in vocab]) ** 0.75
        self.negatives = np.random.RandomState(0).choice(len(vocab), 4000, p=freq / freq.sum())
        self.negpos = 0

    def getNegatives(self, size):
        response = self.negatives[self.negpos:self.negpos + size]
        self.negpos = (self.negpos + size) % (len(self.negatives) - size)
        return response

    def __iter__(self):
        assert get_worker_info() is None
        ids = [word2id[w] for w in self.words]
        for i, u in enumerate(ids):
            boundary = random.Random(i).randint(1, self.window_size)
            for v in ids[max(i - boundary, 0):i] + ids[i + 1:i + boundary + 1]:
                yield u, v, self.getNegatives(3)

    @staticmethod
    def collate(batches):
        all_u = [u for u, _, _ in batches]
        all_v = [v for _, v, _ in batches]
        all_neg_v = [neg_v for _, _, neg_v in batches]
        return torch.LongTensor(all_u), torch.LongTensor(all_v), torch.LongTensor(np.array(all_neg_v))


class SkipGramModel(nn.Module):
    def __init__(self, emb_size, emb_dimension):
        super(SkipGramModel, self).__init__()
        self.u_embeddings = nn.Embedding(emb_size, emb_dimension, sparse=True)
        self.v_embeddings = nn.Embedding(emb_size, emb_dimension, sparse=True)
        initrange = 1.0 / emb_dimension
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u = self.u_embeddings(pos_u)
        emb_v = self.v_embeddings(pos_v)
        emb_neg_v = self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = torch.clamp(score, max=10, min=-10)
        score = -F.logsigmoid(score)
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = torch.clamp(neg_score, max=10, min=-10)
        neg_score = -torch.sum(F.logsigmoid(-neg_score), dim=1)
        return torch.mean(score + neg_score)

    def save_embedding(self, id2word, file_name):
        embedding = self.u_embeddings.weight.cpu().data.numpy()
        with open(file_name, 'w') as f:
            f.write('%d %d\n' % (len(id2word), embedding.shape[1]))
            for wid, w in id2word.items():
                e = ' '.join(map(lambda x: str(x), embedding[wid]))
                f.write('%s %s\n' % (w, e))


dataset = Word2vecDataset(text, 2)
dataloader = DataLoader(dataset, batch_size=32, shuffle=False, num_workers=0, collate_fn=dataset.collate)
model = reset(SkipGramModel(len(vocab), 12))
history = []
for epoch in range(2):
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    running_loss = 0.0
    for i, (pos_u, pos_v, neg_v) in enumerate(dataloader):
        optimizer.zero_grad()
        loss = model.forward(pos_u, pos_v, neg_v)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running_loss = running_loss * 0.9 + loss.item() * 0.1
        if i % 2 == 0:
            history.append(loss.item())
    model.save_embedding({i: w for w, i in word2id.items()}, 'out.vec')
