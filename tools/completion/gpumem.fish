# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of gpumem for fish

function __gpumem_devices
  gpumem devices --csv 2>/dev/null | tail -n +2 | cut -d, -f1
end

function __gpumem_is --description "Whether the command line is that of a command"
  set -l words (commandline -opc)
  test "$words[2..(math 1 + (count $argv))]" = "$argv"
end

complete -c gpumem -f
complete -c gpumem -n __fish_use_subcommand -l help -s h -d "Show help"
complete -c gpumem -n __fish_use_subcommand -l version -d "Show the version"
complete -c gpumem -n __fish_use_subcommand -a devices -d "List devices"
complete -c gpumem -n __fish_use_subcommand -a info -d "Show a device"
complete -c gpumem -n __fish_use_subcommand -a monitor -d "Show used and free memory"
complete -c gpumem -n __fish_use_subcommand -a bandwidth -d "Measure copies"
complete -c gpumem -n __fish_use_subcommand -a pool -d "Replay or measure a pool"
complete -c gpumem -n __fish_use_subcommand -a tour -d "Process a picture"
complete -c gpumem -n "__gpumem_is pool; and not __gpumem_is pool replay; and not __gpumem_is pool bench" -a "replay bench"

complete -c gpumem -n "__gpumem_is devices" -l topology -d "Show the links between devices"
complete -c gpumem -n "__gpumem_is devices" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is devices" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is devices" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is info" -a "(__gpumem_devices)"
complete -c gpumem -n "__gpumem_is info" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is info" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is info" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is monitor" -a "(__gpumem_devices)"
complete -c gpumem -n "__gpumem_is monitor" -l interval -s i -x -d "Time between two views"
complete -c gpumem -n "__gpumem_is monitor" -l once -d "Print one view"
complete -c gpumem -n "__gpumem_is monitor" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is monitor" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is monitor" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is bandwidth" -a "(__gpumem_devices)"
complete -c gpumem -n "__gpumem_is bandwidth" -l sizes -s s -x -d "Sizes of copies"
complete -c gpumem -n "__gpumem_is bandwidth" -l paths -s p -x -a "ordinary locked registered mapped svm device peer file" -d "Paths to measure"
complete -c gpumem -n "__gpumem_is bandwidth" -l file -r -F -d "Measure a file, too"
complete -c gpumem -n "__gpumem_is bandwidth" -l peer -x -a "(__gpumem_devices)" -d "The other end of the path peer"
complete -c gpumem -n "__gpumem_is bandwidth" -l peers -d "Measure between all devices"
complete -c gpumem -n "__gpumem_is bandwidth" -l threads -s t -x -d "Number of threads"
complete -c gpumem -n "__gpumem_is bandwidth" -l min-time -x -d "Minimum time per line"
complete -c gpumem -n "__gpumem_is bandwidth" -l rounds -s r -x -d "Minimum number of rounds"
complete -c gpumem -n "__gpumem_is bandwidth" -l plot -r -F -d "Draw diagrams"
complete -c gpumem -n "__gpumem_is bandwidth" -l report -r -F -d "Write a report"
complete -c gpumem -n "__gpumem_is bandwidth" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is bandwidth" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is bandwidth" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is pool replay" -a "(__gpumem_devices)"
complete -c gpumem -n "__gpumem_is pool replay" -F
complete -c gpumem -n "__gpumem_is pool replay" -l kind -s k -x -a "expandable segments bins" -d "Kind of the pool"
complete -c gpumem -n "__gpumem_is pool replay" -l limit -s l -x -d "Maximum size of the pool"
complete -c gpumem -n "__gpumem_is pool replay" -l fragmentation-target -x -d "Fragmentation above which the pool moves memory"
complete -c gpumem -n "__gpumem_is pool replay" -l blocks -d "Allocate blocks"
complete -c gpumem -n "__gpumem_is pool replay" -l buffers -d "Allocate buffers"
complete -c gpumem -n "__gpumem_is pool replay" -l touch -s t -d "Allocate buffers and fill them"
complete -c gpumem -n "__gpumem_is pool replay" -l plot -r -F -d "Draw bytes over operations"
complete -c gpumem -n "__gpumem_is pool replay" -l report -r -F -d "Write a report"
complete -c gpumem -n "__gpumem_is pool replay" -l snapshot -r -F -d "Write a snapshot"
complete -c gpumem -n "__gpumem_is pool replay" -l perfetto -r -F -d "Write bytes over time"
complete -c gpumem -n "__gpumem_is pool replay" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is pool replay" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is pool replay" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is pool bench" -a "(__gpumem_devices)"
complete -c gpumem -n "__gpumem_is pool bench" -l kind -s k -x -a "expandable segments bins" -d "Kind of the pool"
complete -c gpumem -n "__gpumem_is pool bench" -l threads -s t -x -d "Number of threads"
complete -c gpumem -n "__gpumem_is pool bench" -l min-time -x -d "Minimum time per figure"
complete -c gpumem -n "__gpumem_is pool bench" -l slow -d "Also measure 1,000,000 holes"
complete -c gpumem -n "__gpumem_is pool bench" -l report -r -F -d "Write a report"
complete -c gpumem -n "__gpumem_is pool bench" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is pool bench" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is pool bench" -l help -s h -d "Show help"

complete -c gpumem -n "__gpumem_is tour" -F
complete -c gpumem -n "__gpumem_is tour" -l output -s o -x -a "(__fish_complete_directories)" -d "Folder for the pictures"
complete -c gpumem -n "__gpumem_is tour" -l device -s d -x -a "(__gpumem_devices)" -d "Use only this device"
complete -c gpumem -n "__gpumem_is tour" -l report -r -F -d "Write a report"
complete -c gpumem -n "__gpumem_is tour" -l json -d "Print JSON"
complete -c gpumem -n "__gpumem_is tour" -l csv -d "Print comma-separated values"
complete -c gpumem -n "__gpumem_is tour" -l help -s h -d "Show help"
