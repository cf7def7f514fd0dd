# Completion of @NAME@ for bash: options, their values, and other words. After the name of a program, words have no
# completion of @NAME@ up to a ':', where the options of the next program begin. The completions for other shells
# call this script with MPD_WHOLE=1. Then it prints the kind of the word first, and whole words.

# Sets kinds to the kinds of an option's values.
_@NAME@_values() {
    kinds=()
    case $1 in
@VALUES@    esac
}

# Lists the values of one kind that begin with a text.
_@NAME@_list() {
    case $1 in
    program) compgen -c -- "$2" ;;
    variable) compgen -v -- "$2" ;;
    host) compgen -W "all $(mpdtrace --patience 1 2>/dev/null)" -- "$2" ;;
    job) compgen -W "$(mpdlistjobs 2>/dev/null | sed -n 's/^jobid *= *//p' | sort -u)" -- "$2" ;;
    words:*) compgen -W "${1#words:}" -- "$2" ;;
    esac
}

_@NAME@() {
    local line=${COMP_LINE:0:COMP_POINT} words=() kinds=() current='' word kind='' left=0 behind=0
    # The kinds of the words that are no options; 'program' is the last.
    local others=(@WORDS@) other=0
    COMPREPLY=()
    # COMP_WORDS are split at ':', '=' and '@', too.
    read -ra words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        current=${words[-1]}
        unset 'words[-1]'
    fi
    for word in "${words[@]:1}"; do
        if ((behind)); then
            [[ $word != : ]] || behind=0
        elif ((left)); then
            # NAME=VALUE instead of NAME VALUE
            [[ ${kinds[-left]} != name || $word != *=* ]] || left=1
            left=$((left - 1))
        elif [[ $word == -* ]]; then
            word=${word#-}
            _@NAME@_values "${word#-}"
            left=${#kinds[@]}
        elif [[ ${others[other]-} == program ]]; then
            behind=1
        else
            other=$((other + 1))
        fi
    done
    ((!behind)) || return 0
    word=$current
    if ((left)); then
        kind=${kinds[-left]}
    elif [[ $current == -*=* ]]; then
        word=${current%%=*}
        word=${word#-}
        _@NAME@_values "${word#-}"
        kind=${kinds[0]-}
        word=${current#*=}
    elif [[ $current == --* ]]; then
        kind='words:@DOUBLE@'
    elif [[ $current == -* ]]; then
        kind='words:@SINGLE@'
    else
        kind=${others[other]-none}
    fi
    [[ $kind != name ]] || kind=variable
    [[ -z ${MPD_WHOLE-} ]] || printf '%s\n' "$kind"
    # The shell itself completes names of files and directories, with quotes where they are needed.
    case $kind in
    file) return 0 ;;
    directory)
        compopt -o dirnames +o default +o bashdefault 2>/dev/null
        return 0
        ;;
    program) [[ $word != */* ]] || return 0 ;;
    *) compopt +o default +o bashdefault 2>/dev/null ;;
    esac
    # The last item of a list
    local before=''
    [[ $kind != host && $kind != variable ]] || before=${word%"${word##*,}"}
    mapfile -t COMPREPLY < <(_@NAME@_list "$kind" "${word#"$before"}" | sort -u)
    COMPREPLY=("${COMPREPLY[@]/#/"$before"}")
    [[ -z ${MPD_WHOLE-} ]] || return 0
    # The shell replaces only the part after the last of these characters.
    local kept=${word%"${word##*[@:=]}"}
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

complete -F _@NAME@ -o bashdefault -o default @NAME@
