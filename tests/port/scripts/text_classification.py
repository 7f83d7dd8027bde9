import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
from torch.utils.data.dataset import Dataset, random_split

from portable import reset

LINES = [(1 + i % 3, w) for i, w in enumerate(["stocks fall on weak data", "team wins the final match", "new chip doubles speed",
                                              "bank raises the rates", "coach praises young team", "phone maker shows chip"] * 4)]
vocab = {w: i + 1 for i, w in enumerate(sorted({t for _, l in LINES for t in l.split()}))}
text_pipeline = lambda x: [vocab.get(t, 0) for t in x.split()]
label_pipeline = lambda x: int(x) - 1


class Lines(Dataset):
    def __len__(self):
        return len(LINES)

    def __getitem__(self, i):
        return LINES[i]


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for (_label, _text) in batch:
        label_list.append(label_pipeline(_label))
        processed_text = torch.tensor(text_pipeline(_text), dtype=torch.int64)
        text_list.append(processed_text)
        offsets.append(processed_text.size(0))
    label_list = torch.tensor(label_list, dtype=torch.int64)
    offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
    text_list = torch.cat(text_list)
    return label_list, text_list, offsets


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super(TextClassificationModel, self).__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        embedded = self.embedding(text, offsets)
        return self.fc(embedded)


model = reset(TextClassificationModel(len(vocab) + 1, 16, 3))
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.5)
train_part, valid_part = Subset(Lines(), range(18)), Subset(Lines(), range(18, 24))
assert len(random_split(Lines(), [0.75, 0.25])[0]) == 18
train_dataloader = DataLoader(train_part, batch_size=6, shuffle=False, collate_fn=collate_batch)
history = []


def evaluate(dataloader):
    model.eval()
    total_acc, total_count = 0, 0
    with torch.no_grad():
        for idx, (label, text, offsets) in enumerate(dataloader):
            predicted_label = model(text, offsets)
            history.append(criterion(predicted_label, label).item())
            total_acc += (predicted_label.argmax(1) == label).sum().item()
            total_count += label.size(0)
    return total_acc / total_count


total_accu = None
for epoch in range(1, 4):
    epoch_start_time = time.time()
    model.train()
    for idx, (label, text, offsets) in enumerate(train_dataloader):
        optimizer.zero_grad()
        loss = criterion(model(text, offsets), label)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        history.append(loss.item())
    accu_val = evaluate(DataLoader(valid_part, batch_size=6, collate_fn=collate_batch))
    if total_accu is not None and total_accu > accu_val:
        scheduler.step()
    else:
        total_accu = accu_val
