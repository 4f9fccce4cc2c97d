"""Neovim without a window, with the settings of the guide, as a client of the language server."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .harness_serve import BAD, ENVIRONMENT, GOOD, written

GUIDE = Path(__file__).parents[3] / "docs/guides/editors.md"

# Waits for what the server sends, and writes it to a file.
SCRIPT = """
local function wait(what, done)
  assert(vim.wait(60000, done, 50), "nothing came: " .. what)
end
local function times()  -- shown in the buffer, as line and text
  local made = {}
  for name, space in pairs(vim.api.nvim_get_namespaces()) do
    if name:find("codelens") then
      for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })) do
        table.insert(made, { mark[2], mark[4].virt_text[1][1] })
      end
    end
  end
  return made
end
wait("time of the opened file", function() return #times() > 0 end)
local opened = times()
vim.cmd("edit " .. os.getenv("BAD"))
wait("findings", function() return #vim.diagnostic.get(0) > 0 end)
local found = vim.diagnostic.get(0)[1]
local row = found.lnum
local made = { opened = opened, code = found.code or found.user_data.lsp.code, row = row }
local place = vim.lsp.util.make_text_document_params(0)
local function ask(method, params)
  local replies = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, reply in pairs(replies) do return reply.result end
end
local span = { start = { line = row, character = 0 }, ["end"] = { line = row, character = 80 } }
ask("textDocument/codeLens", { textDocument = place })  -- after the run of the opened file
made.hover = ask("textDocument/hover",
  { textDocument = place, position = { line = row, character = 12 } }).contents.value
local action = ask("textDocument/codeAction",
  { textDocument = place, range = span, context = { diagnostics = {} } })[1]
vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
wait("no findings", function() return #vim.diagnostic.get(0) == 0 end)
vim.cmd("silent write")
wait("time of the saved file", function() return #times() > 0 end)
made.saved = times()
made.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n") .. "\\n"
vim.fn.writefile({ vim.fn.json_encode(made) }, os.getenv("RESULT"))
vim.cmd("quitall!")
"""


@pytest.mark.editor
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvim") is None, reason="no Neovim on this machine")
def test_the_settings_of_the_guide(tmp_path):
    settings = GUIDE.read_text().partition("```lua\n")[2].partition("```")[0]
    command = json.dumps([sys.executable, "-m", "nkisim", "serve", "--lsp"])[1:-1]
    assert settings.count('"nkisim", "serve", "--lsp"') == 1
    settings = settings.replace('"nkisim", "serve", "--lsp"', command)
    init, script, result = (tmp_path / name for name in ("init.lua", "script.lua", "result.json"))
    init.write_text(settings)
    script.write_text(
        f"local done, why = pcall(function() {SCRIPT} end)\n"
        'if not done then io.stderr:write(why) vim.cmd("cquit!") end\n'
    )
    good, bad = written(tmp_path, GOOD, "good.py"), written(tmp_path, BAD, "bad.py")
    home = {
        f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA", "STATE")
    }
    done = subprocess.run(
        ["nvim", "--headless", "-n", "-u", str(init), good, "-S", str(script)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**ENVIRONMENT, **home, "RESULT": str(result), "BAD": bad},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert found["code"] == "A025"
    assert BAD.splitlines()[found["row"]].lstrip().startswith("nisa.tensor_scalar")
    assert "nisa.tensor_scalar(dst, data, op0, operand0" in found["hover"]
    assert found["opened"] == found["saved"]  # the same kernel
    ((row, shown),) = found["saved"]
    assert GOOD.splitlines()[row].startswith("def double")
    assert re.fullmatch(r"\d+\.\d us on gen3, bound by launch", shown)
    assert found["text"] == GOOD
