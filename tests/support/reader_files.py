"""Small files of an RDF folder and of the HGB format, valid as they are."""

import json

TRIPLES = """\
<http://x/a> <http://p#knows> <http://x/b> .
<http://x/a> <http://p#knows> <http://x/b> .
<http://x/b> <http://p#knows> _:c .
<http://x/a> <http://p#name> "A" .
<http://x/b> <http://p#name> "A"@en .
<http://x/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/Person> .
<http://x/b> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/Thing> .
_:c <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/Thing> .
_:c <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/Rare> .
"""
TRAINING = "thing\tid\tlabel_x\r\nhttp://x/a\t1\tred\r\n"
TEST = "thing\tid\tlabel_x\r\nhttp://x/b\t2\tblue\r\n"
INFO = {
    "node.dat": {"node type": {"0": "author", "1": "paper"}},
    "link.dat": {
        "link type": {
            "0": {"start": "0", "end": "1", "meaning": "writes"},
            "1": {"start": "1", "end": "0", "meaning": "written"},
        }
    },
}
FILES = {
    "info.dat": json.dumps(INFO),
    "node.dat": '0\tA "B\t0\n1\tC\t0\n2\tP\t1\t1,0.5\n3\tQ\t1\t0,2\n4\tD\t0\n',
    "link.dat": "0\t2\t0\t1.0\n4\t3\t0\t1.0\n2\t0\t1\t1.0\n",
    "label.dat": "0\tA\t0\t1\n1\tC\t0\t0\n",
    "label.dat.test": "4\tD\t0\t1\n",
}
