-- completion.lua: `capl completion bash|zsh`: prints the script with which a shell completes the words of capl.
--
-- The scripts know nothing themselves: at each TAB they ask `capl completion --at=N -- WORDS`, which reads recipes as text and
-- runs none. It answers in lines: a candidate, a tab and its meaning; or ":files" and the ends of names that fit as well.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local complete = require "cli.complete"
local options = require "cli.options"

local spec = {
  {name = "at", type = "number", from = 1, doc = "completes word N of those behind --, which is what the scripts ask for"},
}

local completion = {options = spec}

local bash = [==[
# bash completion of capl. To switch it on: source <(capl completion bash)
_capl()
{
  # Bash takes a word apart at "=", of which the program is to know nothing.
  local words=() word joined=0 at=0 i
  for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' && ${#words[@]} -gt 0 ]]; then
      words[-1]+='='
      joined=1
    elif ((joined)); then
      words[-1]+=$word
      joined=0
    else
      words+=("$word")
    fi
    ((i == COMP_CWORD)) && at=${#words[@]}
  done
  local current=${words[at - 1]-} before='' kind line files=() ends end
  [[ $current == --*=* && $COMP_WORDBREAKS == *=* ]] && before=${current%%=*}=
  COMPREPLY=()
  while IFS=$'\t' read -r line kind; do
    if [[ $line == :files ]]; then
      read -ra ends <<<"$kind"
      files=(yes)
    elif [[ -n $line ]]; then
      COMPREPLY+=("${line#"$before"}")
    fi
  done < <("${COMP_WORDS[0]/#\~/$HOME}" completion --at="$at" -- "${words[@]}" 2>/dev/null)
  if ((${#files[@]})); then
    word=$current
    [[ $current == --*=* ]] && word=${current#*=}
    compopt -o filenames
    if ((${#ends[@]} == 0)); then
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
    else
      for end in "${ends[@]}"; do
        [[ $end == / ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X "!*$end" -- "$word")
      done
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$word")
    fi
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  return 0
}
complete -F _capl capl
]==]

local zsh = [==[
#compdef capl
# zsh completion of capl: put it as _capl into a folder of $fpath, or: source <(capl completion zsh)
_capl()
{
  local line kind files='' prefix='' pattern
  local -a ends plain open
  while IFS=$'\t' read -r line kind; do
    if [[ $line == :files ]]; then
      files=yes
      ends=(${=kind})
    elif [[ $line == *= ]]; then
      open+=("${line//:/\\:}${kind:+:$kind}")
    elif [[ -n $line ]]; then
      plain+=("${line//:/\\:}${kind:+:$kind}")
    fi
  done < <(${~words[1]} completion --at=$((CURRENT - 1)) -- "${(@)words[2,-1]}" 2>/dev/null)
  ((${#plain})) && _describe -t words word plain
  ((${#open})) && _describe -t options option open -S ''
  if [[ -n $files ]]; then
    compset -P '--*='
    if ((${#ends} == 0)); then
      _files
    elif [[ ${ends[1]} == / ]]; then
      _files -/
    else
      pattern="*${(j: *:)ends}"
      _files -g "$pattern"
    fi
  fi
}
if [[ ${funcstack[1]-} == _capl ]]; then
  _capl "$@"
else
  compdef _capl capl
fi
]==]

local scripts = {bash = bash, zsh = zsh}

-- One line of an answer; meanings on one line.
local function line_of(candidate)
  local meaning = candidate[2] and candidate[2]:gsub("[%c]", " ") or ""
  return meaning == "" and candidate[1] or candidate[1] .. "\t" .. meaning
end

local function print_answer(answer)
  local lines = {}
  for i, candidate in ipairs(answer) do lines[i] = line_of(candidate) end
  if answer.files then lines[#lines + 1] = ":files\t" .. table.concat(answer.files, " ") end
  if #lines > 0 then core.sys.out(table.concat(lines, "\n") .. "\n") end
end

function completion.main(job)
  local o, words = options.read(job.args, spec, {command = "completion"})
  if o.at then return print_answer(complete.at(words, o.at)) end
  local script = scripts[words[1] or ""]
  if not script or words[2] then
    core.error{code = "value", message = "capl completion takes the name of a shell; usage: " .. job.usage}
  end
  core.sys.out(script)
end

completion.examples = {
  {"source <(capl completion bash)", "switches it on in this shell; in ~/.bashrc in every one"},
  {"capl completion zsh > ~/.zfunc/_capl", "for zsh, with ~/.zfunc in fpath"},
}

return completion
