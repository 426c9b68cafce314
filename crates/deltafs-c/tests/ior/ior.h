/* All that is used of it stands in aiori.h. */
#include "aiori.h"
