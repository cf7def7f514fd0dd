# Completion of @NAME@ for fish: the results of the script for bash, which is included. Without bash it offers files.

function __@NAME@_offered
    set -l script '@BASH@'
    set -l line (commandline -cp)
    set -l current (commandline -ct)
    set -l found (bash --norc -c "$script" bash "$line" 2>/dev/null)
    set -l kind $found[1]
    set -e found[1]
    # The option before a value in the same word
    set -l before (string match -r -- '^-[^=]*=' "$current"; or echo)
    set -l value (string replace -r -- '^-[^=]*=' '' "$current")
    switch "$kind"
        case '' file
            for path in (__fish_complete_path "$value")
                echo $before$path
            end
        case directory
            for path in (__fish_complete_directories "$value")
                echo $before$path
            end
        case program
            complete -C "$value"
        case '*'
            for word in $found
                echo $before$word
            end
    end
end

complete -c @NAME@ -f -a '(__@NAME@_offered)'
