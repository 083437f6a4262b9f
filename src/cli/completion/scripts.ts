/**
 * The scripts know no verbs or options: each asks `holdfast complete` at every press of Tab. So a
 * script that was stored once also completes the verbs and options of a later version. The first
 * line of the answer is the kind of completion.
 */
const BASH = `# Completion of holdfast for bash. In ~/.bashrc: source <(holdfast completion bash)
_holdfast() {
  local line kind=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
  done < <("\${COMP_WORDS[0]}" complete bash -- "\${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  case $kind in
    command)
      while IFS= read -r line; do COMPREPLY+=("$line"); done \\
        < <(compgen -c -- "\${COMP_WORDS[COMP_CWORD]}" | sort -u)
      ;;
    files) compopt -o default -o bashdefault 2>/dev/null ;;
  esac
}
complete -F _holdfast holdfast
`;

const ZSH = `#compdef holdfast
# Completion of holdfast for zsh. In ~/.zshrc, after compinit: source <(holdfast completion zsh)
_holdfast() {
  local -a lines
  local kind separator
  lines=("\${(@f)$("$words[1]" complete zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}")
  kind=$lines[1]
  shift lines
  case $kind in
    command)
      separator=\${words[(i)--]}
      if (( separator < CURRENT )); then
        shift $separator words
        (( CURRENT -= separator ))
        _normal
      else
        _command_names -e
      fi
      ;;
    files) _files ;;
    words) (( $#lines )) && _describe -V holdfast lines ;;
  esac
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;

const FISH = `# Completion of holdfast for fish, for ~/.config/fish/completions/holdfast.fish
function __holdfast_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct | string unescape)
    set -l lines ($before[1] complete fish -- $before[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case command
            complete -C (commandline -ct)
        case files
            __fish_complete_path (commandline -ct)
        case words
            printf '%s\\n' $lines[2..-1]
    end
end
complete -c holdfast -f -k -a '(__holdfast_complete)'
`;

export const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

export type Shell = keyof typeof SCRIPTS;

export const SHELLS = Object.keys(SCRIPTS) as readonly Shell[];
