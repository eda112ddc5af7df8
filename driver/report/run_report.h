// What a report says of one run: the loaded graph, its traced steps, losses and memory, as JSON.
// page.html, page.css and page.js draw it; report_page puts the four together.
#pragma once

#include <span>
#include <string>

#include "driver/context.h"

namespace riffle::driver {

/// Of the loaded graph; UsageError when none is loaded.
Json run_report(Context& context);

/// One self-contained HTML page with the runs, the last one shown first.
std::string report_page(std::span<const Json> runs);

}  // namespace riffle::driver
