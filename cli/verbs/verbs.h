// One function per verb, each in the file of its name: asks the daemon and prints.
#pragma once

#include "cli/command.h"

namespace vrampool::cli {

Result<int> run_init(const Invocation&);
Result<int> run_invite(const Invocation&);
Result<int> run_join(const Invocation&);
Result<int> run_leave(const Invocation&);
Result<int> run_forget(const Invocation&);
Result<int> run_promote(const Invocation&);
Result<int> run_status(const Invocation&);
Result<int> run_nodes(const Invocation&);
Result<int> run_ls(const Invocation&);
Result<int> run_df(const Invocation&);
Result<int> run_inspect(const Invocation&);
Result<int> run_create(const Invocation&);
Result<int> run_import(const Invocation&);
Result<int> run_jobs(const Invocation&);
Result<int> run_export(const Invocation&);
Result<int> run_verify(const Invocation&);
Result<int> run_rename(const Invocation&);
Result<int> run_rm(const Invocation&);
Result<int> run_read(const Invocation&);
Result<int> run_write(const Invocation&);
Result<int> run_donate(const Invocation&);
Result<int> run_doctor(const Invocation&);
Result<int> run_demo(const Invocation&);
Result<int> run_bench_page_read(const Invocation&);
Result<int> run_bench_stream(const Invocation&);
Result<int> run_bench_fault(const Invocation&);
Result<int> run_bench_scan(const Invocation&);
Result<int> run_bench_alloc(const Invocation&);
Result<int> run_bench_local(const Invocation&);
Result<int> run_bench_idle(const Invocation&);
Result<int> run_version(const Invocation&);
Result<int> run_completion(const Invocation&);
Result<int> run_help(const Invocation&);

}  // namespace vrampool::cli
