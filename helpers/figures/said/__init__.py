"""What a figure shows, in one or two sentences, made of the same tidy table that the figure is made of.

Nothing here measures: a sentence names the values with their intervals, and claims no difference where those do not
part them. Each figure of `helpers.figures` carries its sentence (`helpers.figure_sentence`). The sentences that belong
to no figure are in `helpers.figures.remarks`.
"""

from helpers.figures.said.acceptance import lengths as lengths
from helpers.figures.said.acceptance import over_time as over_time
from helpers.figures.said.acceptance import positions as positions
from helpers.figures.said.acceptance import prompts as prompts
from helpers.figures.said.acceptance import rates as rates
from helpers.figures.said.acceptance import survival as survival
from helpers.figures.said.speed import forecast as forecast
from helpers.figures.said.speed import throughput as throughput
from helpers.figures.said.tokens import layer_tokens as layer_tokens
from helpers.figures.said.tokens import token_pair as token_pair
from helpers.figures.said.training import training as training
from helpers.figures.said.wiring import ladder as ladder
from helpers.figures.said.wiring import norms as norms
from helpers.figures.said.wiring import slot_costs as slot_costs
from helpers.figures.said.wiring import slot_matrix as slot_matrix
