
# What a running array and the table of choices know: volumes, nodes, KEY=VALUE.
complete -c weft -a '(set -l words (commandline -opc); $words[1] complete -- $words[2..] (commandline -ct) 2>/dev/null)'
