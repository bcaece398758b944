
# What a running array and the table of choices know: volumes, nodes, KEY=VALUE.
_weft_words() {
    local -a found
    found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -z "${found[1]}" ]]; then
        _weft "$@"
    elif [[ "${found[1]}" == *= ]]; then
        compadd -S '' -a found
    else
        compadd -a found
    fi
}
