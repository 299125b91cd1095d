"""Training dumps behind one interface: samples of token ids and of the K slots that the drafter was trained on.

One module a format. A format is told by what the files hold; names count only where two formats hold the same
(`hs_*` is speculators', design.md), and what stays ambiguous is refused until somebody says which it is.

>>> for sample in read_dump("data/lab/dump"):              # doctest: +SKIP
...     sample.token_ids, sample.slots                      # int64 [T], [T, K, H] in the dtype of the file
"""

from helpers.tensors.dumps.opening import FORMATS as FORMATS
from helpers.tensors.dumps.opening import read_dump as read_dump
from helpers.tensors.dumps.sample import Dump as Dump
from helpers.tensors.dumps.sample import Sample as Sample
from helpers.tensors.dumps.sample import States as States
