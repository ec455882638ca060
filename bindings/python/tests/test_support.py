"""What ends a test that hangs."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from support import LONG_S, TestCase, until

HANGS = """
    import sys, time, unittest
    sys.path.insert(0, sys.argv.pop(1))
    from support import TestCase

    class Hanging(TestCase):
        def test_hangs(self):
            print(self.python("import time; time.sleep(1000)").pid, flush=True)
            time.sleep(1000)

    unittest.main()
"""


class Support(TestCase):
    def test_a_hanging_test_is_reported_and_its_process_is_gone(self):
        command = [sys.executable, "-c", textwrap.dedent(HANGS), str(Path(__file__).parent)]
        environment = {**os.environ, "CAUSEWAY_TEST_LIMIT_S": "1"}
        program = self.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        output, errors = program.communicate(timeout=LONG_S)
        self.assertEqual(program.returncode, 1, errors)
        self.assertIn("Timeout", errors)
        self.assertIn("test_hangs", errors)
        until(lambda: is_gone(int(output)), "the end of its process")


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True
