// vrampoold: the control plane of service/ over the data plane of service/data/.
#include "service/daemon.h"

int main(int argc, char** argv) {
  return vrampool::service::run_daemon(argc, argv, vrampool::service::DataPlane::start);
}
