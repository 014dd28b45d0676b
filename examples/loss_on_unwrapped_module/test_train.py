"""Tests of the trainer, by the plug-in of pytest that the wheel has: pytest examples/loss_on_unwrapped_module"""

import pathlib

from lockstep.testing import assert_in_lockstep, assert_same_training

TRAIN = pathlib.Path(__file__).with_name("train.py")


def test_ranks_stay_in_lockstep(lockstep_watch):
    assert_in_lockstep(lockstep_watch([TRAIN, "--fixed"]))


def test_loss_on_the_unwrapped_module_is_found(lockstep_watch):
    job = lockstep_watch([TRAIN])
    assert job.verdict == "violated"
    assert job.findings[0]["kind"] == "gradients-differ"


def test_two_ranks_train_as_one_does(lockstep_watch):
    one, two = lockstep_watch([TRAIN, "--fixed"], ranks=1), lockstep_watch([TRAIN, "--fixed"])
    assert_same_training(one, two)
