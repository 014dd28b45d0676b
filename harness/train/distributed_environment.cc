#include "harness/train/distributed_environment.h"
