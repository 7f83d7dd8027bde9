"""Calls that are wrong in ways an editor should mark: each such line says so, and the checkers must agree.

Read by test_user_program.py, never imported.
"""

from __future__ import annotations

import weft
import weft.nn.functional as F
from weft import Tensor, nn
from weft.data import DataLoader, TensorDataset
from weft.distributions import Normal

x: Tensor = weft.randn(2, 3)
right = x.exp().sum(dim=1, keepdim=True)
x.exponent()  # wrong
x.exp(3)  # wrong
x.sum(keepdm=True)  # wrong
x.topk("two")  # wrong
x.transpose(0)  # wrong
x.matmul([1.0, 2.0])  # wrong
x.add_(1, beta=2)  # wrong
x.requires_grad_("yes")  # wrong
number: int = x.exp()  # wrong
words: str = x.shape  # wrong
length: str = x.size(0)  # wrong
print(x.sort().value)  # wrong
weft.tnesor([1.0])  # wrong
weft.zeros(2, 3, dtyp=weft.float32)  # wrong
weft.zeros(2.5)  # wrong
weft.arange(3, requires_grad="no")  # wrong
weft.linalg.sovle(x, x)  # wrong
weft.fft.fft(x, nn=3)  # wrong
weft.cat(x, dims=1)  # wrong
nn.Linaer(2, 3)  # wrong
nn.Linear(2)  # wrong
nn.Conv2d(1, 8, 3, strides=2)  # wrong
nn.Dropout("half")  # wrong
nn.LSTM(8, 8, bidirectional="yes")  # wrong
nn.init.xavier_nrmal_(x)  # wrong
nn.utils.clip_grad_norms_([x], 1.0)  # wrong
F.cros_entropy(x, x)  # wrong
F.dropout(x, probability=0.1)  # wrong
weft.optim.AdanW([x])  # wrong
weft.optim.SGD([x], learning_rate=0.1)  # wrong
weft.optim.lr_scheduler.StepLr(None, 1)  # wrong
DataLoader(TensorDataset(x), batchsize=4)  # wrong
Normal(0.0, 1.0).logprob(x)  # wrong
weft.train.Trainer(epochs=3)  # wrong
weft.func.vmpa(weft.sum)  # wrong
weft.models.form_pretrained("folder")  # wrong
