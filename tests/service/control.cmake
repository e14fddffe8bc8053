# The control plane's tests: daemons in one process over a data plane in memory.
vp_test(test_service_config SOURCES control_config_test.cpp ROOMS service)
vp_test(test_service_control TIMEOUT 300
  SOURCES control_state_test.cpp control_pool_test.cpp control_jobs_test.cpp control_rig.cpp control_fake_plane.cpp ROOMS service)
