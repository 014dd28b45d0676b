#include "harness/train/quantised_linear.h"
