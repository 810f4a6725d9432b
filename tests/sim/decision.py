"""Exhaustive model of deciding and reading across the end of a lease (docs/lease.md, "Where a batch is decided").

checks=2: look before and after making visible (wrong: a reader returns rows of a batch that is then refused).
checks=1: the lane decides once, before visibility. reader: accepts any valid lease, or only the epoch it began in.
handshake: a new epoch starts only after the lane has decided everything of the old one (without it a batch appears late).
Run: python3 decision.py (seconds). Only checks=1 with the handshake has no violation; 'same epoch' is kept for several holders.
"""
from collections import deque
def explore(checks,reader,handshake):   # state: t, epoch, lane pc, visible, outcome, (reader pc, its epoch, saw, result); lease of epoch 1 holds while t<=2
    init=(0,1,'c1',0,None,('idle',0,0,None)); seen={init}; q=deque([init]); bad=set()
    ok=lambda s,e:(e==1 and s[1]==1 and s[0]<=2) or (e==2 and s[1]==2)
    while q:
        s=q.popleft(); t,ep,pc,v,out,rd=s; n=[]; rp,re,rs,rr=rd
        if t<4: n.append((t+1,ep,pc,v,out,rd))
        if ep==1 and t>2: n.append((t,0,pc,v,out,rd))
        if ep==0 and (not handshake or pc=='done'): n.append((t,2,pc,v,out,rd))
        if pc=='c1': n.append((t,ep,'sv' if ok(s,1) else 'ab',v,out,rd))
        if pc=='sv': n.append((t,ep,'c2' if checks==2 else 'ack',1,out,rd))
        if pc=='c2': n.append((t,ep,'ack' if ok(s,1) else 'ab',v,out,rd))
        if pc=='ab': n.append((t,ep,'done',0,'536',rd))
        if pc=='ack': n.append((t,ep,'done',v,'ok',rd))
        if rp=='idle': n+=[(t,ep,pc,v,out,('read',e,0,None)) for e in (1,2) if ok(s,e)]
        if rp=='read': n.append((t,ep,pc,v,out,('chk',re,v,None)))
        if rp=='chk':
            good=ok(s,re) if reader=='same epoch' else ok(s,1) or ok(s,2)
            n.append((t,ep,pc,v,out,('end',re,rs,'ret' if good else 'refused')))
        for x in n:
            if x not in seen: seen.add(x); q.append(x)
        if rr=='ret' and rs and out=='536': bad.add('dirty read')
        if rr=='ret' and not rs and re==2 and out=='ok': bad.add('late appearance')
    print(checks,reader,'handshake' if handshake else '-',len(seen),sorted(bad) or 'no violation')
for c in (2,1):
    for r in ('valid now','same epoch'):
        for h in (False,True): explore(c,r,h)
