// The one place where Boost.JSON's bodies are compiled for this program.
#include <boost/json/src.hpp>
