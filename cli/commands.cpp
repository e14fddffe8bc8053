// The table of commands: every verb with its arguments, options and examples.
#include <algorithm>

#include "cli/command.h"
#include "cli/verbs/verbs.h"

namespace vrampool::cli {
namespace {

const Argument kName{"name", Kind::segment, "a segment's name; see vrampool ls"};
const Option kDetach{"--detach", Kind::flag, "", "return at once; the job goes on (see vrampool jobs)"};
const Option kPlacement{"--placement", Kind::choice, "HOW", "where the bytes go: local, spread, pack or nodes",
                        "local|spread|pack|nodes"};
const Option kNode{"--node", Kind::node, "NAME", "a node for --placement nodes; may be given several times"};
const Option kCount{"--count", Kind::count, "N", "how many operations"};
const Option kPeer{"--node", Kind::node, "NAME", "the node to read from (default: the first other one)"};
const Option kSegmentOption{"--segment", Kind::segment, "NAME", "the segment to read (default: a temporary one)"};
const Option kSize{"--bytes", Kind::bytes, "SIZE", "how much, such as 256MiB"};

std::vector<Command> pool_commands() {
  return {
      {"status",
       "show this node, its pool and what is wrong",
       "Health comes first: an empty list means good.",
       {},
       {},
       {{"vrampool status", "one look at everything"}, {"vrampool status --json", "the same for programs"}},
       run_status},
      {"nodes",
       "list the nodes of the pool",
       "",
       {},
       {{"--names", Kind::flag, "", "names only, one a line"}},
       {{"vrampool nodes", "who is there, who leads, how full"}},
       run_nodes},
      {"init",
       "make a new pool with this node as its first member",
       "Run it once, on the machine that shall coordinate.",
       {},
       {},
       {{"vrampool init", "then: vrampool invite"}},
       run_init},
      {"invite",
       "print the line that lets another machine join",
       "The line holds the pool's key: whoever has it can read and write the pool. Send it as you would a password.",
       {},
       {},
       {{"vrampool invite", "copy the printed line to the other machine"}},
       run_invite},
      {"join",
       "join a pool with the line that invite printed",
       "Give the invitation as the argument, or \"-\" to read it from standard input, which keeps it out of the "
       "shell's "
       "history and the process list.",
       {{"invitation", Kind::text, "what vrampool invite printed after \"join\", or -"}},
       {},
       {{"vrampool join -", "then paste the invitation"}},
       run_join},
      {"leave",
       "leave the pool in order",
       "Refused while segments have bytes here that are nowhere else.",
       {},
       {{"--force", Kind::flag, "", "leave although bytes here are nowhere else: they are lost"}},
       {{"vrampool leave", "on the machine that leaves"}},
       run_leave},
      {"forget",
       "take a node that will not come back off the roster",
       "Its bytes are lost; its name and number are not used "
       "again.",
       {{"node", Kind::node, "a node's name"}},
       {{"--force", Kind::flag, "", "although it is alive"}},
       {{"vrampool forget mac3", "after mac3 was sold"}},
       run_forget},
      {"promote",
       "make a node the coordinator",
       "Needs a majority of the roster. With --force the nodes that cannot be "
       "reached are abandoned: should they come back, they come back empty.",
       {{"node", Kind::node, "a node's name (default: this one)", false}},
       {{"--force", Kind::flag, "", "abandon the nodes that cannot be reached"}},
       {{"vrampool promote", "when the coordinator is down for long"}},
       run_promote},
      {"df",
       "show how full the nodes are",
       "",
       {},
       {},
       {{"vrampool df", "capacity, used and free of each node"}},
       run_df},
      {"donate",
       "change how much memory this node donates",
       "A share of RAM (60%) or a size. Takes effect at once.",
       {{"size", Kind::text, "such as 64GiB or 60%"}},
       {},
       {{"vrampool donate 96GiB", "give 96 GiB from now on"}},
       run_donate},
      {"doctor",
       "look for what is wrong on this machine, and say how to mend it",
       "Works without a daemon too. Exits with 1 when something is wrong.",
       {},
       {},
       {{"vrampool doctor", "each problem comes with its fix"}},
       run_doctor},
  };
}

std::vector<Command> segment_commands() {
  return {
      {"ls",
       "list the segments of the pool",
       "",
       {{"prefix", Kind::segment, "only names that begin so", false}},
       {{"--names", Kind::flag, "", "names only, one a line"}},
       {{"vrampool ls models/", "what is below models/"}},
       run_ls},
      {"inspect",
       "show one segment: its tensors, files and pieces",
       "",
       {kName},
       {{"--all", Kind::flag, "", "every tensor, not just the first 20"}},
       {{"vrampool inspect llama", "where each part lives"}},
       run_inspect},
      {"import",
       "bring model files into the pool under a name",
       "Reads safetensors (one file, shards or their index) and GGUF; anything else goes in as raw bytes. The daemon "
       "does "
       "it: Ctrl-C cancels and gives the memory back, a closed terminal does not. Files are read on this machine by "
       "the "
       "daemon's user. If the name exists, the new segment takes its place when it is complete.",
       {{"file", Kind::file, "one or more files, or a directory with a model", true, true}},
       {{"--name", Kind::text, "NAME", "the segment's name (default: the file's)"},
        {"--layout", Kind::choice, "HOW", "aligned: each tensor on its own page; file: the file's image",
         "aligned|file"},
        kPlacement,
        kNode,
        {"--keep", Kind::flag, "", "keep what has arrived if it stops, so that it can be resumed"},
        kDetach},
       {{"vrampool import model.safetensors", "the segment is called model"},
        {"vrampool import shards/ --name llama --placement spread", "spread over all nodes"}},
       run_import},
      {"export",
       "write a segment's files back to a directory",
       "Byte-exact: the files are what was imported.",
       {kName, {"directory", Kind::file, "where to write; made if it is not there"}},
       {{"--overwrite", Kind::flag, "", "replace files that are there"}, kDetach},
       {{"vrampool export llama out/", ""}},
       run_export},
      {"verify",
       "read every byte of a segment and check it",
       "Compares with the checksums taken at import.",
       {kName},
       {kDetach},
       {{"vrampool verify llama", "exit status 1 if a byte is wrong or lost"}},
       run_verify},
      {"jobs",
       "list imports, exports and checks, or cancel one",
       "",
       {},
       {{"--cancel", Kind::count, "JOB", "cancel this one and give its memory back"}},
       {{"vrampool jobs --cancel 3", ""}},
       run_jobs},
      {"create",
       "make an empty segment, filled from standard input or with zeros",
       "Sealed when it is complete.",
       {{"name", Kind::text, "the new segment's name"}},
       {kSize,
        {"--from", Kind::file, "FILE", "its content (- for standard input); --bytes is then its size"},
        kPlacement,
        kNode},
       {{"vrampool create scratch --bytes 1GiB", "a gibibyte of zeros"},
        {"tar c dir | vrampool create dir.tar --from -", "from a pipe"}},
       run_create},
      {"rename",
       "give a segment another name",
       "",
       {kName, {"new-name", Kind::text, "the new name"}},
       {},
       {{"vrampool rename llama llama-old", ""}},
       run_rename},
      {"rm",
       "remove a segment",
       "Programs that have it mapped keep their bytes until they unmap them.",
       {kName},
       {{"--force", Kind::flag, "", "although somebody maps it"}},
       {{"vrampool rm llama", ""}},
       run_rm},
      {"read",
       "write bytes of a segment to standard output",
       "",
       {kName},
       {{"--offset", Kind::bytes, "SIZE", "first byte (default: 0)"},
        kSize,
        {"--tensor", Kind::text, "NAME", "the bytes of this tensor"}},
       {{"vrampool read llama --tensor norm.weight > norm.bin", ""}},
       run_read},
      {"write",
       "make a segment out of standard input",
       "The same as create --from -.",
       {{"name", Kind::text, "the new segment's name"}},
       {kPlacement, kNode},
       {{"vrampool write notes < notes.txt", ""}},
       run_write},
  };
}

std::vector<Command> other_commands() {
  return {
      {"demo",
       "show the whole thing on this machine, in a minute",
       "Starts several daemons on loopback with their own directories, imports a model, reads every page of it on a "
       "node "
       "that holds none, checks every tensor, measures, and leaves nothing behind.",
       {},
       {{"--nodes", Kind::count, "N", "how many daemons (default: 3)"},
        {"--model", Kind::file, "FILE", "a model of yours (default: one is made, 300 MB)"},
        {"--capacity", Kind::bytes, "SIZE", "memory that each node donates (default: 1GiB)"},
        {"--reserve", Kind::bytes, "SIZE", "make a sparse segment of this size instead of importing a model"},
        {"--keep", Kind::flag, "", "leave the daemons running and say how to reach them"}},
       {{"vrampool demo", "three nodes"},
        {"vrampool demo --nodes 4 --capacity 384GiB --reserve 1400GiB", "1.5 TB of address space on one laptop"}},
       run_demo},
      {"bench page-read",
       "measure reading one 16 KiB page from another node",
       "Beside a bare socket echo of the same run.",
       {},
       {kPeer, kCount},
       {{"vrampool bench page-read --count 20000", ""}},
       run_bench_page_read},
      {"bench stream",
       "measure reading much from another node",
       "",
       {},
       {kPeer, kSize, kSegmentOption},
       {{"vrampool bench stream --bytes 1GiB", ""}},
       run_bench_stream},
      {"bench fault",
       "measure the first touch of a remote page",
       "",
       {},
       {kPeer, kCount, kSegmentOption},
       {{"vrampool bench fault", ""}},
       run_bench_fault},
      {"bench scan",
       "measure walking a lazy remote mapping from front to back",
       "",
       {},
       {kPeer, kSize, kSegmentOption},
       {{"vrampool bench scan", ""}},
       run_bench_scan},
      {"bench local",
       "measure reading a local sealed mapping against plain shared memory",
       "",
       {},
       {kSize},
       {{"vrampool bench local", ""}},
       run_bench_local},
      {"bench alloc",
       "measure the small allocator",
       "Needs no daemon.",
       {},
       {kCount},
       {{"vrampool bench alloc", ""}},
       run_bench_alloc},
      {"bench idle",
       "measure what the daemon costs when nobody asks for anything",
       "",
       {},
       {{"--seconds", Kind::count, "N", "how long to watch (default: 10)"}},
       {{"vrampool bench idle", ""}},
       run_bench_idle},
      {"version",
       "print the versions of this program and of the daemon",
       "",
       {},
       {},
       {{"vrampool version", ""}},
       run_version},
      {"completion",
       "print a completion script for a shell",
       "",
       {{"shell", Kind::text, "bash, zsh or fish"}},
       {},
       {{"vrampool completion bash > ~/.local/share/bash-completion/completions/vrampool", ""}},
       run_completion},
      {"help",
       "say more about a command",
       "",
       {{"command", Kind::text, "a command, one or two words", false, true}},
       {{"--paths", Kind::flag, "", "only list the commands, one a line"}},
       {{"vrampool help import", ""}},
       run_help},
  };
}

std::vector<Command> all_commands() {
  std::vector<Command> all;
  for (auto part : {pool_commands(), segment_commands(), other_commands()}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const Command> commands() {
  static const std::vector<Command> all = all_commands();
  return all;
}

std::span<const Option> common_options() {
  static const std::vector<Option> all = {
      {"--json", Kind::flag, "", "one JSON document instead of text"},
      {"--socket", Kind::file, "PATH", "the daemon's socket (default: the usual places)"},
      {"--no-color", Kind::flag, "", "no colour"},
      {"--help", Kind::flag, "", "this text"},
      {"--man", Kind::flag, "", "the man page's source"},
  };
  return all;
}

const Command* find_command(std::string_view path) {
  const auto all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.path == path; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace vrampool::cli
