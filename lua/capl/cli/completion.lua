-- completion.lua: `capl completion bash|zsh`: prints the script with which a shell completes commands, options and
-- files.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local page = require "cli.page"

local completion = {}

local script = [==[
_capl()
{
  local word=${COMP_WORDS[COMP_CWORD]} options=''
  case ${COMP_WORDS[1]} in
%s
  esac
  ((COMP_CWORD == 1)) && options='%s'
  COMPREPLY=($(compgen -W "$options" -- "$word"))
  [[ -n $BASH_VERSION && ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  return 0
}
complete -o default -F _capl capl
]==]

-- What stands before it in each shell.
local heads = {
  bash = "# bash completion of capl. To switch it on: source <(capl completion bash)\n",
  zsh = [==[
#compdef capl
# zsh completion of capl: put it as _capl into a folder of $fpath, or: source <(capl completion zsh)
autoload -U +X bashcompinit && bashcompinit
]==],
}

local function options_of(command)
  local words = {}
  for i, option in ipairs(page.of(command).options) do
    words[i] = "--" .. option.name .. (option.type == "flag" and "" or "=")
  end
  return table.concat(words, " ")
end

function completion.main(job)
  local head = heads[job.args[1] or ""]
  if not head or job.args[2] then
    core.error{code = "value", message = "capl completion takes the name of a shell; usage: " .. job.usage}
  end
  local commands, cases = {}, {}
  for _, row in ipairs(core.sys.commands()) do
    if page.word(row.name) == row.name then
      commands[#commands + 1] = row.name
      cases[#cases + 1] = ("    %s) options='%s' ;;"):format(row.name, options_of(row.name))
    end
  end
  core.sys.out(head .. script:format(table.concat(cases, "\n"), table.concat(commands, " ")))
end

completion.examples = {
  {"source <(capl completion bash)", "enables completion in this shell; add it to ~/.bashrc for every shell"},
  {"capl completion zsh > ~/.zfunc/_capl", "for zsh, if ~/.zfunc is in fpath"},
}

return completion
