#compdef @NAME@
# Completion of @NAME@ for zsh: what the one for bash offers, which stands here. Without bash it offers files.

local script='@BASH@'
local line="${(j: :)${(@)words[1,CURRENT-1]}} $PREFIX"
local -a found
found=("${(@f)$(bash --norc -c "$script" bash "$line" 2>/dev/null)}")
local kind=${found[1]}
found=("${(@)found[2,-1]}")

# What stands in front of a value in one word with its option
[[ $PREFIX != -*=* ]] || compset -P '*='
case $kind in
'' | file) _files ;;
directory) _files -/ ;;
program) _alternative 'commands:program:_command_names -e' 'files:program:_files' ;;
*) (( ! $#found )) || compadd -- "${(@)found}" ;;
esac
