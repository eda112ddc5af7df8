// The report page's parts, embedded at build time from page.html, page.css and page.js beside this.
#pragma once

#include <string_view>

namespace riffle::driver {

extern const std::string_view kPageHtml, kPageCss, kPageJs;

}  // namespace riffle::driver
