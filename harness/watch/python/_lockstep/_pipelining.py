"""What torch's pipelines know of the parameters in their stages."""

from _lockstep._objects import keep_type, objects_of, type_of
from _lockstep._placement import EnginePart

_STAGE = "torch.distributed.pipelining.stage", "_PipelineStageBase"

keep_type(*_STAGE)


def parts(modules):
    """By id of the parameter: ranks with one stage hold copies."""
    stage_type = type_of(*_STAGE)
    if stage_type is None:
        return {}
    return {id(parameter): EnginePart(None, "stage %d" % stage.stage_index)
            for stage in objects_of(stage_type) for parameter in stage.submod.parameters()}


def gathered(modules):
    return ()
