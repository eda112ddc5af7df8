// The whole public API.
#pragma once

#include "riffle/error.h"      // IWYU pragma: export
#include "riffle/functions.h"  // IWYU pragma: export
#include "riffle/graph.h"      // IWYU pragma: export
#include "riffle/session.h"    // IWYU pragma: export
#include "riffle/types.h"      // IWYU pragma: export
