#compdef @NAME@
# Completion of @NAME@ for zsh: the results of the script for bash, which is included. Without bash it offers files.

local script='@BASH@'
local line="${(j: :)${(@)words[1,CURRENT-1]}} $PREFIX"
local -a found
found=("${(@f)$(bash --norc -c "$script" bash "$line" 2>/dev/null)}")
local kind=${found[1]}
found=("${(@)found[2,-1]}")

# The option before a value in the same word
[[ $PREFIX != -*=* ]] || compset -P '*='
case $kind in
'' | file) _files ;;
directory) _files -/ ;;
program) _alternative 'commands:program:_command_names -e' 'files:program:_files' ;;
*) (( ! $#found )) || compadd -- "${(@)found}" ;;
esac
