"""Networks that read images, under torchvision's names, and some under Hugging Face's."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "alex_net": ("AlexNet", "alexnet"),
    "captioning": ("Captioner", "SequenceToImage", "coverage_penalty", "small_encoder"),
    "clip": (
        *("CLIPConfig", "CLIPForImageClassification", "CLIPModel", "CLIPTextConfig", "CLIPTextModel"),
        *("CLIPTextModelWithProjection", "CLIPVisionConfig", "CLIPVisionModel", "CLIPVisionModelWithProjection"),
    ),
    "convnext": (*("CNBlockConfig", "ConvNeXt", "convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),),
    "convnext_hf": ("ConvNextConfig", "ConvNextForImageClassification", "ConvNextModel"),
    "densenet": ("DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"),
    "google_net": ("GoogLeNet", "GoogLeNetOutputs", "googlenet"),
    "lenet": ("LeNet5", "LeNet5Original"),
    "mobilenet": ("MobileNetV1", "MobileNetV2", "mobilenet_v1", "mobilenet_v2"),
    "resnet": (
        *("BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
        *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"),
    ),
    "resnet_hf": ("ResNetConfig", "ResNetForImageClassification", "ResNetModel"),
    "resnet_small": (
        *("CifarResNet", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet1202"),
        *("PreActBlock", "PreActBottleneck", "PreActResNet", "preact_resnet18", "preact_resnet34", "preact_resnet50"),
        *("preresnet20", "preresnet56", "preresnet110", "preresnet164", "preresnet1001"),
        *("wide_resnet", "wide_resnet16_8", "wide_resnet28_10", "wide_resnet40_4"),
    ),
    "siglip": (
        *("SiglipConfig", "SiglipForImageClassification", "SiglipModel", "SiglipTextConfig", "SiglipTextModel"),
        *("SiglipVisionConfig", "SiglipVisionModel"),
    ),
    "swin": ("SwinConfig", "SwinForImageClassification", "SwinModel"),
    "vgg": ("VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
    "vit": (
        *("VisionTransformer", "interpolate_embeddings", "vit_ti_16", "vit_s_16", "vit_b_16", "vit_b_32"),
        *("vit_l_16", "vit_l_32", "vit_h_14"),
    ),
    "vit_hf": (
        *("DeiTConfig", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher", "DeiTModel"),
        *("ViTConfig", "ViTForImageClassification", "ViTModel"),
    ),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
