#include "harness/train/device_map.h"
