import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

from portable import images, reset

CFG = """
[net]
channels=3

[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
activation=leaky

[shortcut]
from=-2

[convolutional]
batch_normalize=1
filters=12
size=3
stride=2
pad=1
activation=leaky

[upsample]
stride=2

[route]
layers=-1, 2

[maxpool]
size=2
stride=2

[convolutional]
size=1
stride=1
pad=0
filters=14
activation=linear

[yolo]
anchors=3,3, 6,6
classes=2
"""


def parse_model_config(text):
    module_defs = []
    for line in (l.strip() for l in text.split('\n')):
        if not line or line.startswith('#'):
            continue
        if line.startswith('['):
            module_defs.append({'type': line[1:-1].rstrip()})
            if module_defs[-1]['type'] == 'convolutional':
                module_defs[-1]['batch_normalize'] = 0
        else:
            key, value = line.split("=")
            module_defs[-1][key.rstrip()] = value.strip()
    return module_defs


def create_modules(module_defs):
    hyperparams = module_defs.pop(0)
    output_filters = [int(hyperparams["channels"])]
    module_list = nn.ModuleList()
    for module_i, module_def in enumerate(module_defs):
        modules = nn.Sequential()
        if module_def["type"] == "convolutional":
            bn, filters, size = int(module_def["batch_normalize"]), int(module_def["filters"]), int(module_def["size"])
            modules.add_module(f"conv_{module_i}", nn.Conv2d(output_filters[-1], filters, size, int(module_def["stride"]), padding=(size - 1) // 2, bias=not bn))
            if bn:
                modules.add_module(f"batch_norm_{module_i}", nn.BatchNorm2d(filters, momentum=0.1, eps=1e-5))
            if module_def["activation"] == "leaky":
                modules.add_module(f"leaky_{module_i}", nn.LeakyReLU(0.1))
        elif module_def["type"] == "maxpool":
            modules.add_module(f"maxpool_{module_i}", nn.MaxPool2d(kernel_size=int(module_def["size"]), stride=int(module_def["stride"])))
        elif module_def["type"] == "upsample":
            modules.add_module(f"upsample_{module_i}", Upsample(scale_factor=int(module_def["stride"]), mode="nearest"))
        elif module_def["type"] == "route":
            layers = [int(x) for x in module_def["layers"].split(",")]
            filters = sum([output_filters[1:][i] for i in layers])
            modules.add_module(f"route_{module_i}", nn.Sequential())
        elif module_def["type"] == "shortcut":
            filters = output_filters[1:][int(module_def["from"])]
            modules.add_module(f"shortcut_{module_i}", nn.Sequential())
        elif module_def["type"] == "yolo":
            a = [int(x) for x in module_def["anchors"].split(",")]
            modules.add_module(f"yolo_{module_i}", YOLOLayer([(a[i], a[i + 1]) for i in range(0, len(a), 2)], int(module_def["classes"])))
        module_list.append(modules)
        output_filters.append(filters)
    return hyperparams, module_list


class Upsample(nn.Module):
    def __init__(self, scale_factor, mode="nearest"):
        super(Upsample, self).__init__()
        self.scale_factor, self.mode = scale_factor, mode

    def forward(self, x):
        return F.interpolate(x, scale_factor=self.scale_factor, mode=self.mode)


class YOLOLayer(nn.Module):
    def __init__(self, anchors, num_classes):
        super(YOLOLayer, self).__init__()
        self.num_anchors, self.num_classes, self.no = len(anchors), num_classes, num_classes + 5
        self.mse_loss, self.bce_loss = nn.MSELoss(), nn.BCELoss()
        self.grid = torch.zeros(1)
        anchors = torch.tensor(list(sum(anchors, ()))).float().view(-1, 2)
        self.register_buffer('anchors', anchors)
        self.register_buffer('anchor_grid', anchors.clone().view(1, -1, 1, 1, 2))
        self.stride = None

    def forward(self, x, img_size):
        self.stride = img_size // x.size(2)
        bs, _, ny, nx = x.shape
        x = x.view(bs, self.num_anchors, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
        if not self.training:
            if self.grid.shape[2:4] != x.shape[2:4]:
                self.grid = self._make_grid(nx, ny).to(x.device)
            x[..., 0:2] = (x[..., 0:2].sigmoid() + self.grid) * self.stride
            x[..., 2:4] = torch.exp(x[..., 2:4]) * self.anchor_grid
            x[..., 4:] = x[..., 4:].sigmoid()
            x = x.view(bs, -1, self.no)
        return x

    @staticmethod
    def _make_grid(nx=20, ny=20):
        yv, xv = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing='ij')
        return torch.stack((xv, yv), 2).view((1, 1, ny, nx, 2)).float()


class Darknet(nn.Module):
    def __init__(self, config):
        super(Darknet, self).__init__()
        self.module_defs = parse_model_config(config)
        self.hyperparams, self.module_list = create_modules(self.module_defs)
        self.yolo_layers = [layer[0] for layer in self.module_list if isinstance(layer[0], YOLOLayer)]

    def forward(self, x):
        img_size = x.size(2)
        layer_outputs, yolo_outputs = [], []
        for i, (module_def, module) in enumerate(zip(self.module_defs, self.module_list)):
            if module_def["type"] in ["convolutional", "upsample", "maxpool"]:
                x = module(x)
            elif module_def["type"] == "route":
                x = torch.cat([layer_outputs[int(layer_i)] for layer_i in module_def["layers"].split(",")], 1) if i else x
            elif module_def["type"] == "shortcut":
                layer_i = int(module_def["from"])
                x = layer_outputs[-1] + layer_outputs[layer_i]
            elif module_def["type"] == "yolo":
                x = module[0](x, img_size)
                yolo_outputs.append(x)
            layer_outputs.append(x)
        return yolo_outputs if self.training else torch.cat(yolo_outputs, 1)


def bbox_iou(box1, box2, x1y1x2y2=True, CIoU=False, eps=1e-9):
    box2 = box2.T
    b1_x1, b1_x2 = box1[0] - box1[2] / 2, box1[0] + box1[2] / 2
    b1_y1, b1_y2 = box1[1] - box1[3] / 2, box1[1] + box1[3] / 2
    b2_x1, b2_x2 = box2[0] - box2[2] / 2, box2[0] + box2[2] / 2
    b2_y1, b2_y2 = box2[1] - box2[3] / 2, box2[1] + box2[3] / 2
    inter = (torch.min(b1_x2, b2_x2) - torch.max(b1_x1, b2_x1)).clamp(0) * (torch.min(b1_y2, b2_y2) - torch.max(b1_y1, b2_y1)).clamp(0)
    w1, h1, w2, h2 = b1_x2 - b1_x1, b1_y2 - b1_y1 + eps, b2_x2 - b2_x1, b2_y2 - b2_y1 + eps
    union = w1 * h1 + w2 * h2 - inter + eps
    iou = inter / union
    cw = torch.max(b1_x2, b2_x2) - torch.min(b1_x1, b2_x1)
    ch = torch.max(b1_y2, b2_y2) - torch.min(b1_y1, b2_y1)
    c2 = cw ** 2 + ch ** 2 + eps
    rho2 = ((b2_x1 + b2_x2 - b1_x1 - b1_x2) ** 2 + (b2_y1 + b2_y2 - b1_y1 - b1_y2) ** 2) / 4
    v = (4 / math.pi ** 2) * torch.pow(torch.atan(w2 / h2) - torch.atan(w1 / h1), 2)
    with torch.no_grad():
        alpha = v / ((1 + eps) - iou + v)
    return iou - (rho2 / c2 + v * alpha)


def compute_loss(predictions, targets, layer):
    BCE = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5]))
    lcls, lbox, lobj = torch.zeros(1), torch.zeros(1), torch.zeros(1)
    p = predictions[0]
    gain = torch.ones(7)
    gain[2:6] = torch.tensor(p.shape)[[3, 2, 3, 2]]
    na, nt = layer.num_anchors, targets.shape[0]
    ai = torch.arange(na).float().view(na, 1).repeat(1, nt)
    t = torch.cat((targets.repeat(na, 1, 1), ai[:, :, None]), 2) * gain
    anchors = layer.anchors / layer.stride
    r = t[:, :, 4:6] / anchors[:, None]
    j = torch.max(r, 1. / r).max(2)[0] < 4
    t = t[j]
    b, c = t[:, :2].long().T
    gxy, gwh = t[:, 2:4], t[:, 4:6]
    gij = gxy.long()
    gi, gj = gij.T
    a = t[:, 6].long()
    tobj = torch.zeros_like(p[..., 0])
    ps = p[b, a, gj.clamp_(0, p.shape[2] - 1), gi.clamp_(0, p.shape[3] - 1)]
    pxy = ps[:, :2].sigmoid()
    pwh = torch.exp(ps[:, 2:4]) * anchors[a]
    iou = bbox_iou(torch.cat((pxy, pwh), 1).T, torch.cat((gxy - gij, gwh), 1), x1y1x2y2=False, CIoU=True)
    lbox += (1.0 - iou).mean()
    tobj[b, a, gj, gi] = iou.detach().clamp(0).type(tobj.dtype)
    tt = torch.zeros_like(ps[:, 5:])
    tt[range(len(b)), c] = 1
    lcls += BCE(ps[:, 5:], tt)
    lobj += BCE(p[..., 4], tobj)
    loss = 0.05 * lbox + 1.0 * lobj + 0.5 * lcls
    return loss, torch.cat((lbox, lobj, lcls, loss)).detach()


model = reset(Darknet(CFG))
x, y = images(6, channels=3, size=16)
rng = np.random.RandomState(0)
targets = torch.from_numpy(np.concatenate([np.arange(6)[:, None], (np.arange(6) % 2)[:, None], rng.uniform(0.2, 0.8, (6, 2)), rng.uniform(0.1, 0.5, (6, 2))], 1)).float()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=5e-4)
history = []
for batches_done in range(8):
    imgs = Variable(x, requires_grad=False)
    loss, loss_components = compute_loss(model(imgs), targets, model.yolo_layers[0])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    history += [float(v) for v in loss_components]
model.eval()
with torch.no_grad():
    out = model(x)
    scores = out[..., 4:5] * out[..., 5:]
    conf, j = scores.max(2, keepdim=True)
    history += [out.mean().item() / 10, conf.sum().item()]
