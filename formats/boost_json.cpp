// The one compiled copy of Boost.JSON (header-only use). Its own object file, so that a second copy elsewhere in a
// program does not clash with it.
#include <boost/json/src.hpp>
