"""Encoder, decoder, heads and losses as objects with a registry."""
import re
from typing import List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.loss import _Loss

from portable import images, reset


class BaseObject(nn.Module):
    def __init__(self, name=None):
        super().__init__()
        self._name = name

    @property
    def __name__(self):
        if self._name is None:
            name = self.__class__.__name__
            s1 = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
            return re.sub("([a-z0-9])([A-Z])", r"\1_\2", s1).lower()
        else:
            return self._name


class Conv2dReLU(nn.Sequential):
    def __init__(self, in_channels, out_channels, kernel_size, padding=0, stride=1, use_batchnorm=True):
        conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=not (use_batchnorm))
        relu = nn.ReLU(inplace=True)
        bn = nn.BatchNorm2d(out_channels) if use_batchnorm and use_batchnorm != "inplace" else nn.Identity()
        super(Conv2dReLU, self).__init__(conv, bn, relu)


class SCSEModule(nn.Module):
    def __init__(self, in_channels, reduction=2):
        super().__init__()
        self.cSE = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(in_channels, in_channels // reduction, 1), nn.ReLU(inplace=True),
                                 nn.Conv2d(in_channels // reduction, in_channels, 1), nn.Sigmoid())
        self.sSE = nn.Sequential(nn.Conv2d(in_channels, 1, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.cSE(x) + x * self.sSE(x)


class Activation(nn.Module):
    def __init__(self, name, **params):
        super().__init__()
        if name is None or name == "identity":
            self.activation = nn.Identity(**params)
        elif name == "sigmoid":
            self.activation = nn.Sigmoid()
        elif name == "softmax2d":
            self.activation = nn.Softmax(dim=1, **params)
        elif callable(name):
            self.activation = name(**params)
        else:
            raise ValueError(f"Activation should be callable/sigmoid/softmax/None; got {name}")

    def forward(self, x):
        return self.activation(x)


class Encoder(nn.Module):
    def __init__(self, out_channels=(3, 8, 16), depth=2):
        super().__init__()
        self._out_channels, self._depth = out_channels, depth
        self.stages = nn.ModuleList([Conv2dReLU(i, o, 3, padding=1, stride=2) for i, o in zip(out_channels, out_channels[1:])])

    @property
    def out_channels(self):
        return self._out_channels[: self._depth + 1]

    def forward(self, x):
        features = [x]
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features

    def load_state_dict(self, state_dict, **kwargs):
        state_dict.pop("fc.bias", None)
        state_dict.pop("fc.weight", None)
        return super().load_state_dict(state_dict, **kwargs)


class DecoderBlock(nn.Module):
    def __init__(self, in_channels, skip_channels, out_channels):
        super().__init__()
        self.conv1 = Conv2dReLU(in_channels + skip_channels, out_channels, kernel_size=3, padding=1)
        self.attention1 = SCSEModule(in_channels + skip_channels)

    def forward(self, x, skip=None):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        if skip is not None:
            x = torch.cat([x, skip], dim=1)
            x = self.attention1(x)
        return self.conv1(x)


class SegmentationHead(nn.Sequential):
    def __init__(self, in_channels, out_channels, kernel_size=3, activation=None, upsampling=1):
        conv2d = nn.Conv2d(in_channels, out_channels, kernel_size=kernel_size, padding=kernel_size // 2)
        upsampling = nn.UpsamplingBilinear2d(scale_factor=upsampling) if upsampling > 1 else nn.Identity()
        super().__init__(conv2d, upsampling, Activation(activation))


def initialize_decoder(module):
    for m in module.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_uniform_(m.weight, mode="fan_in", nonlinearity="relu")
            if m.bias is not None:
                nn.init.constant_(m.bias, 0)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)


class Unet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.ModuleList([DecoderBlock(16, 8, 8), DecoderBlock(8, 3, 8)])
        self.segmentation_head = SegmentationHead(8, 4)
        initialize_decoder(self.decoder)

    def check_input_shape(self, x):
        h, w = x.shape[-2:]
        if h % 4 != 0 or w % 4 != 0:
            raise RuntimeError(f"Wrong input shape height={h}, width={w}.")

    def forward(self, x):
        self.check_input_shape(x)
        *skips, x = self.encoder(x)
        for block, skip in zip(self.decoder, skips[::-1]):
            x = block(x, skip)
        return self.segmentation_head(x)

    @torch.no_grad()
    def predict(self, x):
        if self.training:
            self.eval()
        return self.forward(x)


def soft_dice_score(output, target, smooth=0.0, eps=1e-7, dims=None):
    assert output.size() == target.size()
    intersection = torch.sum(output * target, dim=dims)
    cardinality = torch.sum(output + target, dim=dims)
    return (2.0 * intersection + smooth) / (cardinality + smooth).clamp_min(eps)


class DiceLoss(_Loss):
    def __init__(self, log_loss=False, ignore_index: Optional[int] = None):
        super(DiceLoss, self).__init__()
        self.log_loss, self.ignore_index = log_loss, ignore_index

    def forward(self, y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
        y_pred = y_pred.log_softmax(dim=1).exp()
        bs, num_classes = y_true.size(0), y_pred.size(1)
        y_true, y_pred = y_true.view(bs, -1), y_pred.view(bs, num_classes, -1)
        y_true = F.one_hot(y_true, num_classes).permute(0, 2, 1)
        scores = soft_dice_score(y_pred, y_true.type_as(y_pred), dims=(0, 2))
        loss = -torch.log(scores.clamp_min(1e-7)) if self.log_loss else 1.0 - scores
        mask = y_true.sum((0, 2)) > 0
        loss *= mask.to(loss.dtype)
        return loss.mean()


class FocalLoss(_Loss):
    def forward(self, output, target, gamma=2.0):
        logpt = -F.cross_entropy(output, target, reduction="none")
        focal_term = (1.0 - logpt.exp()).pow(gamma)
        return (-focal_term * logpt).mean()


class IoU(BaseObject):
    def forward(self, y_pr, y_gt):
        inter = torch.logical_and(y_pr.argmax(1) == y_gt, y_gt > 0).sum()
        return (inter + 1e-7) / (torch.logical_or(y_pr.argmax(1) > 0, y_gt > 0).sum() + 1e-7)


model = reset(Unet())
x, y = images(8, channels=3, size=12)
target = ((x.mean(1) > 0.5).long() * y.view(-1, 1, 1)).clamp(0, 3)
losses: List[nn.Module] = [DiceLoss(), FocalLoss()]
metric = IoU()
optimizer = torch.optim.Adam([dict(params=model.parameters(), lr=1e-2)])
history = []
for epoch in range(8):
    model.train()
    loss = sum(l(model(x), target) for l in losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.cpu().detach().numpy().item())
print(metric.__name__, metric(model.predict(x), target).item())
