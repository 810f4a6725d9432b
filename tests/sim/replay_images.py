"""Writes every image that the model of one lane (commit_model.py) asks its replay about, with the model's answer: one line each.

    refused end salt present... | cell cell ...        a cell: - or kind,salt,position,arg,state,mark

kind 0 to 2 a batch, 3 fence, 4 abort, 5 cut; arg: where a fence begins, what an abort names, a cut's new salt. Positions are blocks.
Run: python3 replay_images.py mode=SYNC limit=20000 | head
"""
import sys
import commit_model as model

def main():
    kw = {}
    for a in sys.argv[1:]:
        k, v = a.split('=')
        kw[k] = int(v) if v.isdigit() else v
    asked = model.replay
    seen = set()
    out = sys.stdout

    def replay(im, c):
        answer = asked(im, c)
        if im not in seen:
            seen.add(im)
            refused, present, p, salt = answer
            cells = ' '.join('-' if r is None else '%d,%d,%d,%d,%d,%d' % (r[2], r[0], r[1], r[3], r[4], r[5]) for r in im)
            out.write('%d %d %d %s| %s\n' % (refused, p, salt, ''.join('%d ' % x[1] for x in present), cells))
        return answer

    model.replay = replay
    bad, states, images, _, _ = model.explore(look='crash', **kw)
    if bad not in (None, 'LIMIT'):
        sys.exit('the model itself fails: %s' % bad)
    out.write('end %d %d\n' % (states, len(seen)))

main()
