
# What a running array and the table of choices know: volumes, nodes, KEY=VALUE.
_weft_words() {
    local words last found
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    found=$("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
    if [[ -z $found ]]; then
        _weft "$@"
        return
    fi
    mapfile -t COMPREPLY <<<"$found"
    last=${words[${#words[@]}-1]}
    # For bash, what stands before '=' is a word of its own.
    [[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${last%%=*}="}")
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _weft_words -o bashdefault -o default weft
