"""Exhaustive model of one lane from reserve to replay (docs/architecture.md, docs/lease.md, docs/format/wal.md): decide once, fence and abort records, closing, crash, cut, second crash.
DESIGN below is the protocol as written, with one rule more: the cut record is written twice (twin=1; twin=0 fails). Each other value of a switch breaks a rule, or reads a sentence another way.
Two looks at one lane. A reader changes nothing, and no crash happens while it is asked about, so the split loses nothing; what the crash look merges is said.
  look=run    every step of the lane's section (enter and deadline, view, clock, V), the plane (publish, close, promise, fence, NORMAL), clock, renewal, a reader (view, V, check). The durable mark moves by itself.
  look=crash  the disk: submitted in order, at most two in flight, completed in any order, one sync at a time that covers what was completed before it; at every state a crash with each subset of what is not durable.
              The section is one step; instead it may see, once, a lapse that a renewal has outrun. Then replay, a crash while the cut is written, a second life (cut, two batches, or one and a fence record), a second crash, and one
              damaged block below a mark. A batch counts as acknowledged or refused as soon as it may be answered: the worst case.
Bounds: 2 batches (batch 0 is unfit under the new metadata, the other is not), one block a record, one fencing and one change a life, one renewal, one fence record of a false lapse. One order of memory. batches=3 and frags=2,1,1 go further.
Checked: acknowledged = present (SYNC), prefix without a hole (ASYNC); answered 536 or unfit = absent after one and two crashes; what replay brought up stays; no legal image refused; damage below a mark refused; rows given to a reader
are never void; nothing decided under an older view after the promise, nor seen decided after the change is complete; nothing of an old view after NORMAL; nothing missed by a reader of the new view appears; V passes whole batches only;
no acknowledged batch lies in a void range.
Run: python3 commit_model.py (the table, 95 s on 2 cores, 1.2 GB a process); python3 commit_model.py look=run mode=ASYNC fence_at=outside (one row, with its trace). reach=1 names the good ends that were reached; limit=N stops.
Results: design, SYNC and ASYNC: 151,710 and 389,676 states with 530,900 and 1,512,420 images; run 2,964,661 and 1,225,330 states; no violation. All broken rules are found. batches=3 renew=0 look=crash: none in the first 5,000,000
states and 25 million images, not finished.
"""
import itertools,resource,sys,time
from collections import deque
FENCE,ABORT,CUT=3,4,5                  # record kinds above the batches 0, 1, 2; batch 0 is the one that the metadata change makes unfit
INF=9                                  # a deadline that does not pass (the one after recovery)
DESIGN=dict(mode='SYNC',batches=2,frags=(1,1,1),look='crash',renew=1,change=1,fence=1,
    decide='once',order='prefix',fence_at='section',handshake='own',close_promise=1,close_normal=1,close_fenced=1,spare=0,void_by='position',answer='prefix',sync='before',reader='check',
    range='closed',control='kept',hole='ignored',rule='mark',cut='fresh',twin=1,trust='synced',strict=0,claim=0,reach=0)

# ---- the disk: an image is a tuple of (salt, position, kind, arg, state, mark) or None; state 1 whole and valid, 2 whole and void
def replay(im,c):                      # -> refused, present batch records (salt, position), end, salt in force
    salt=0; p=0; pre=[]; H=0; n=len(im)
    while p<n:
        r=im[p]
        if r and r[0]==salt and r[1]==p and r[2]!=CUT: pre.append(r); p+=1; continue
        w=1+c['twin']; copies=[im[k] if k<n and im[k] and im[k][:3]==(salt,p,CUT) else None for k in range(p,p+w)]
        if not all(copies):                                       # a cut that was being written when the power failed, or a bad copy below a mark
            if any(y and x and x[0]==y[3] and x[5]>p for y in copies for x in im[p+w:]): return True,(),p,salt
            break
        salt=copies[0][3]; p+=w
    behind=[r for r in im[p:] if r and r[0]==salt]
    H=max([H]+[r[5] for r in pre+behind])
    refused={'mark':p<H,'old':bool(behind),'lenient':False}[c['rule']]
    void=set(); off=set()
    ctl=[r for r in pre if r[2] in (FENCE,ABORT)]
    if c['hole']=='honoured': ctl+=[r for r in behind if r[2]==FENCE]
    for r in reversed(ctl):
        if (r[0],r[1]) in off: continue
        if r[2]==ABORT: void.add((r[0],r[3])); continue
        for x in pre:
            if x[0]==r[0] and x[1]>=r[3] and (x[1]<r[1] or c['range']=='open'):
                void.add((x[0],x[1]))
                if c['control']=='void' and x[1]<r[1]: off.add((x[0],x[1]))
    return refused,tuple((r[0],r[1]) for r in pre if r[2]<3 and r[4]==1 and (r[0],r[1]) not in void),p,salt
def damaged(im,c):                     # one block damaged below a mark that another whole record still carries: must be refused
    hi={}
    for k,r in enumerate(im):
        if r is None: continue
        hi=max([x[5] for j,x in enumerate(im) if x and j!=k]+[0])
        if k<hi and not replay(im[:k]+(None,)+im[k+1:],c)[0]: return 'cut record' if r[2]==CUT else 'record'
def second_life(q,salt):               # appends from block q on, until the next crash: (blocks written, acknowledged, refused by a durable fence record)
    x=lambda i,kind,arg,mark: (salt,q+i,kind,arg,1,mark)
    out=[((),(),())]
    X=x(0,0,0,q)
    out+=[((X,),(),()),((X,),(q,),())]
    for ym in (q,q+1):                 # Y published before or after X was durable
        Y=x(1,1,0,ym); F=x(1,FENCE,q,ym); a=(q,) if ym>q else ()
        out+=[((X,Y),a,()),((X,None),a,()),((X,Y),(q,q+1),())]
        if ym==q: out+=[((None,Y),(),())]
        out+=[((X,F),(),()),((X,None),(),()),((X,F),(),(q,))]+([((None,F),(),())] if ym==q else [])
    return out
def after(im,vol,c,memo={}):           # the second life and the second crash; vol: blocks that replay trusted though they were not durable
    key=(im,vol,c['twin'],c['cut'],c['rule'],c['range'],c['control'],c['hole'])
    if key in memo: return memo[key]
    _,pres,p,salt=replay(im,c); bad=None; n=0
    if c['cut']=='fresh':
        base=im[:p]+tuple((salt,p,CUT,salt+1,1,p) for _ in range(1+c['twin']))+im[p+1+c['twin']:]; q=p+1+c['twin']; s2=salt+1
    else: base,q,s2=im,p,salt
    if c['cut']=='fresh':                                         # crash while the cut is written
        for i in range(p,q):
            r=replay(im[:i]+(base[i],)+im[i+1:],c); n+=1
            if r[0] or r[1]!=pres: bad=bad or 'crash in replay: refused or changed'
    for blocks,ack,no in second_life(q,s2):
        full=base[:q]+blocks+base[q+len(blocks):]
        if blocks and None in blocks: full=tuple(base[i] if i>=q and i<q+len(blocks) and blocks[i-q] is None else full[i] for i in range(len(full)))
        for k in range(len(vol)+1):
            for lost in itertools.combinations(vol,k):
                im2=tuple(None if i in lost else r for i,r in enumerate(full)); n+=1
                ref,pr2,_,_=replay(im2,c)
                old=tuple(x for x in pr2 if x in pres)
                if ref: bad=bad or 'second crash: a legal image is refused'
                elif old!=pres: bad=bad or 'second crash: what replay had brought up is gone'
                elif any(x not in pres and not (x[0]==s2 and x[1]>=q and blocks and x[1]<q+len(blocks) and blocks[x[1]-q]) for x in pr2): bad=bad or 'second crash: a discarded or void batch comes back'
                elif any((s2,a) not in pr2 for a in ack): bad=bad or 'second crash: acknowledged and lost'
                elif any((s2,a) in pr2 for a in no): bad=bad or 'second crash: answered 536 and present'
                if not lost and not bad and c['rule']=='mark':
                    d=damaged(im2,c)
                    if d: bad='second crash: damage of a %s below the mark is not refused'%d
    memo[key]=(bad,n); return bad,n

# ---- the run: state = batches (pc, fence count, metadata version of the token), log (kind, arg, state, mark, io), V, void by fence, void alone, decider, deadline, clock,
#      fencing, change, ended by the clock, fence record of this fencing, fence record still to be reserved, reader, durable
def successors(s,c):
    bt,log,V,vd,vs,dec,g,clk,ef,cm,ex,fb,pf,rd,D=s
    out=[]; L=len(log); full=c['look']=='crash'; K=D if full else 0       # a record's mark; nobody asks for it while no crash happens
    def add(label,bad=None,**k):
        out.append((label,(k.get('bt',bt),k.get('log',log),k.get('V',V),k.get('vd',vd),k.get('vs',vs),k.get('dec',dec),k.get('g',g),k.get('clk',clk),k.get('ef',ef),k.get('cm',cm),k.get('ex',ex),k.get('fb',fb),k.get('pf',pf),k.get('rd',rd),k.get('D',D)),bad))
    def rec(i,**k): r=log[i]; return log[:i]+((r[0],r[1],k.get('st',r[2]),k.get('mark',r[3]),k.get('io',r[4])),)+log[i+1:]
    def setb(b,x): return bt[:b]+(x,)+bt[b+1:]
    e=1 if ef else 0; m=1 if cm else 0
    lapsed=clk>g and ef<2
    live=ef==2 or (ef==0 and not lapsed)
    pos={r[0]:i for i,r in enumerate(log) if r[0]<3}
    undecided=[i for i in range(V,L) if log[i][0]<3 and log[i][2]<2 and not (vd>>i)&1]
    P=next((i for i in range(L) if log[i][2]==0),L)
    # writers
    for b in range(c['batches']):
        pc,be,bm=bt[b]
        if pc==0:
            if live: add('batch %d: token (%d,%d)'%(b,e,m),bt=setb(b,(1,e,m)))
        elif pc==1:
            if b==2 and bt[1][0]<2: continue                 # batches 1 and 2 are alike: name them by their order in the log
            add('batch %d reserved at %d'%(b,L),bt=setb(b,(2,be,bm)),log=log+((b,0,0,0,0),))
        elif pc<9:
            i=pos[b]
            if pc-2<c['frags'][b]:
                if live and be==e: add('batch %d: fragment %d checked'%(b,pc-2),bt=setb(b,(pc+1,be,bm)))
                else: add('batch %d: check failed, published void'%b,bt=setb(b,(9,0,0)),log=rec(i,st=2,mark=K))
            else: add('batch %d published'%b,bt=setb(b,(9,be,bm)),log=rec(i,st=1,mark=K))
    # disk: submit in order, two in flight, complete in any order, one sync that covers what was completed before it was submitted
    if full:
        fl=[i for i in range(L) if log[i][4]==1]
        i=next((i for i in range(L) if log[i][4]==0),None)
        if i is not None and i<P and len(fl)<2: add('write %d submitted'%i,log=rec(i,io=1))
        for i in fl: add('write %d completed'%i,log=rec(i,io=2))
        sy=[i for i in range(L) if log[i][4]==3]
        if not sy and any(r[4]==2 for r in log): add('sync submitted',log=tuple(r[:4]+(3,) if r[4]==2 else r for r in log))
        if sy:
            l2=tuple(r[:4]+(4,) if r[4]==3 else r[:4]+(5,) if r[4]==2 and c['sync']=='after' else r for r in log)   # 5: taken for durable, and is not
            add('sync done',log=l2,D=next((i for i in range(L) if l2[i][4]<4),L))
    elif D<P and c['mode']=='SYNC': add('durable to %d'%(D+1),D=D+1)
    # the lane
    late=lambda el,ml: rd[0]==3 and ((rd[4]&1 and ml==0) or (rd[4]&2 and el==0))
    def shown(upto,el,ml):                                   # what is wrong with V moving there under view (el,ml)
        for i in range(V,upto):
            r=log[i]
            if r[0]>2 or r[2]==2 or (vd>>i)&1: continue
            if r[2]==0: return 'visible before it is whole'
            be,bm=bt[r[0]][1:]
            if r[0]==0 and bm!=ml: continue                  # unfit: void alone
            if any(f[0]==FENCE and f[1]<=i<k for k,f in enumerate(log)): return 'an acknowledged batch lies in a void range'
            if ef==2 and el==0: return 'old view visible after NORMAL'
            if cm==2 and ml==0: return 'decided in an older view after the promise'
            if late(el,ml): return 'appears after a reader of the new view missed it'
    def fenced(lbl,V0,el,**k):                          # everything undecided is void, fence record
        v=vd; sp=c['spare']
        for i in undecided:
            if (not sp or bt[log[i][0]][1]!=e) and (c['void_by']=='position' or log[i][2]==1): v|=1<<i
        bad='a reader was given rows that are then void' if rd[0]==3 and rd[3]&v else None
        if not bad and any(log[i][0]<3 and log[i][2]==1 and not ((vd|vs)>>i)&1 for i in range(V0,V)): bad='an acknowledged batch lies in a void range'
        add(lbl,bad=bad,vd=v,log=log+((FENCE,V0,1,K,0),),fb=1 if el==1 or c['handshake']=='any' else fb,**k)
    def judge(ub,ok,el,ml):                                  # the decision: which batches are void alone, or is everything undecided void
        alone=0; fence=not ok and bool(undecided)
        for i in range(V,ub):
            r=log[i]
            if r[0]>2 or r[2]==2 or (vd>>i)&1: continue
            be,bm=bt[r[0]][1:]
            if be!=el: fence=True
            elif bm!=ml and r[0]==0: alone|=1<<i
        return alone,fence
    if full:                                                 # the section in one step (its steps are taken apart in look=run); a renewal may have outrun the deadline that it loaded, once
        for ub in ([D if c['mode']=='SYNC' else P] if c['order']=='prefix' else sorted({i+1 for i in range(V,L) if log[i][2]==1})):
            for ok in (live,0) if live and c['renew'] and not any(r[0]==FENCE for r in log) else (live,):
                if not (ub>V or (undecided and not live)): continue
                alone,fence=judge(ub,ok,e,m)
                if fence: fenced('lane: void from %d to %d, fence record reserved'%(V,L),V,e)
                elif ok: add('lane: V=%d'%ub,V=ub,vs=vs|alone)
    elif dec is None:
        marks=[D if c['mode']=='SYNC' else P]
        if c['order']=='own': marks=sorted({i+1 for i in range(V,L) if log[i][2]==1}) or marks
        for ub in marks:
            if ub>V or (undecided and not live):
                gl=g if ef==0 else -1 if ef==1 else INF
                if c['decide']=='once': add('lane enters, group to %d, deadline %d'%(ub,gl),dec=(1,ub,gl,0,0))
                else: add('lane shows group to %d'%ub,dec=(1,ub,gl,V,0),V=max(V,ub))
    elif dec[0]==1: add('lane loads view',dec=(2,dec[1],dec[2],e,m)+((dec[3],) if c['decide']!='once' else ()))
    elif dec[0]==2:
        ok=dec[2]==INF or 0<=dec[2]>=clk
        bad=None
        if ok and dec[4]==0 and (ex or cm==2) and any(log[i][0]<3 and log[i][2]==1 and not (vd>>i)&1 and bt[log[i][0]][1]==dec[3] for i in range(V,dec[1])): bad='decided in an older view after the change is complete'
        add('lane reads the clock: '+('in time' if ok else 'lapsed'),bad=bad,dec=(3,dec[1],ok,dec[3],dec[4])+dec[5:])
    else:
        _,ub,ok,el,ml=dec[:5]
        if c['decide']!='once':                              # the older rule: check again after it is visible, withdraw
            if ok and (el,ml)==(e,m) or dec[5]>=ub: add('lane: final',dec=None)
            else:
                v=vd
                for i in range(dec[5],ub):
                    if log[i][0]<3 and log[i][2]==1: v|=1<<i
                add('lane withdraws',bad='a reader was given rows that are then void' if rd[0]==3 and rd[3]&v else None,vd=v,dec=None,log=log+((FENCE,dec[5],1,K,0),))
        else:
            alone,fence=judge(ub,ok,el,ml)
            if fence:
                if c['fence_at']=='section': fenced("lane: void from %d to %d, fence record reserved"%(V,L),V,el,dec=None)
                elif pf is None: add('lane: lapsed at V=%d, leaves'%V,dec=None,pf=(V,el))
            elif not ok: add('lane leaves',dec=None)
            elif ub>=V or c['order']=='own': add('lane: V=%d'%max(ub,V),bad=shown(ub,el,ml) or ('a reader was given rows that are then void' if rd[0]==3 and rd[3]&alone else None),dec=None,V=max(ub,V),vs=vs|alone)
    if pf is not None: fenced('fence record reserved, from %d'%pf[0],pf[0],pf[1],pf=None)
    for i in range(L):
        if (vs>>i)&1 and not any(r[0]==ABORT and r[1]==i for r in log): add('abort record for %d reserved'%i,log=log+((ABORT,i,1,K,0),))
    # the plane, the clock, the grantor
    inside=dec is not None and dec[0]>1 and tuple(dec[3:5])!=(e,m)
    if clk<=g and ef<2: add('the clock passes deadline %d'%clk,clk=clk+1)
    if c['renew'] and not full and ef==0 and g==0 and clk==0: add('renewed',g=1)
    if c['change']:
        if cm==0 and live and not ex: add('metadata change published',cm=1)
        if cm==1 and (not inside or not c['close_promise']) and not full: add('metadata change promised',cm=2)
        if cm==0 and lapsed and not ex and not full: add('change complete by the clock',ex=1)
    if c['fence']:
        if ef==0: add('fenced: view published, deadline 0',ef=1)
        if ef==1 and (not inside or not c['close_normal']) and (c['handshake']=='none' or ((fb or not undecided) and (c['handshake']!='durable' or all(i<D for i in range(L) if log[i][0]==FENCE)))): add('NORMAL again',ef=2,cm=2 if ex else cm)
        if ef==1 and c['change'] and cm==0 and (not inside or not c['close_fenced']): add('promised while fenced',cm=1 if full else 2)
    # a reader
    if not full:
        if rd[0]==0:
            if live: add('reader: view (%d,%d)'%(e,m),rd=(1,e,m,0,0))
        elif rd[0]==1:
            seen=sum(1<<i for i in range(min(V,L)) if log[i][0]<3 and log[i][2]==1 and not ((vd|vs)>>i)&1)
            add('reader: V=%d'%V,rd=(2,rd[1],rd[2],seen,int(bool(ex or cm==2) and rd[2]==0)))
        elif rd[0]==2:
            if c['reader']=='none' or (live and rd[1:3]==(e,m)):
                bad='a read of the older view is answered after the change is complete' if rd[4] else 'a reader was given rows that are then void' if rd[3]&(vd|vs) else None
                add('reader answered',bad=bad,rd=(3,rd[1],rd[2],rd[3],int(rd[2]==1 and bool(cm==2 or ex or c['strict']))+2*rd[1]))
            else: add('reader starts again',rd=(0,0,0,0,0))
    return out

images={}
def crash(s,c):
    """Every crash of this state: any subset of what is not durable. Returns what is wrong, and how many."""
    bt,log,V,vd,vs=s[:5]; D=s[14]; L=len(log)
    ack=tuple(i for i in range(min(V,L)) if log[i][0]<3 and log[i][2]==1 and not ((vd|vs)>>i)&1)
    dur=lambda i: {'prefix':i<D,'own':log[i][4]==4,'reserved':True}[c['answer']]
    no=set(i for i in range(L) if log[i][0]<3 and log[i][2]==2)
    for i,r in enumerate(log):
        if r[0]==FENCE and dur(i): no|={j for j in range(r[1],i) if (vd>>j)&1}
        if r[0]==ABORT and dur(i): no.add(r[1])
    back=c['claim'] and s[8]==2
    key=(log,ack,tuple(sorted(no)),back)
    if key in images: return None,0
    images[key]=1; n=0
    soft=[i for i in range(L) if log[i][4] in (1,2,3,5)]
    for k in range(len(soft)+1):
        for lost in itertools.combinations(soft,k):
            im=tuple((0,i)+log[i][:4] if log[i][4] and i not in lost else None for i in range(L))+(None,)*4
            n+=1
            refused,pres,p,_=replay(im,c); here={x[1] for x in pres}
            if refused: return 'a legal crash image is refused',n
            gone=[i for i in ack if i not in here]
            if gone and (c['mode']=='SYNC' or any(i in here for i in ack if i>gone[0])): return 'acknowledged and lost',n
            if back and any((vd>>i)&1 for i in here): return 'void by a fence, NORMAL again, crash: it is back',n
            if no&here: return 'answered 536 or unfit, and present',n
            d=damaged(im,c)
            if d: return 'damage below the mark is not refused',n
            bad,n2=after(im,() if c['trust']=='synced' else tuple(i for i in soft if i not in lost),c); n+=n2
            if bad: return bad,n
    return None,n

REACH=('new view acknowledged above a fence record','answered 536 by a fence record','answered unfit by an abort record','void by a check','reader answered in the new view','fence record of a lapse that was none, same view goes on')
def reach(s):
    bt,log,V,vd,vs=s[:5]; D=s[14]; F=[i for i,r in enumerate(log) if r[0]==FENCE]; r=set()
    vis=[i for i in range(min(V,len(log))) if log[i][0]<3 and log[i][2]==1 and not ((vd|vs)>>i)&1]
    if F and vd and any(i>F[0] for i in vis): r.add(0 if s[8] else 5)
    if F and vd and F[0]<D: r.add(1)
    if any(x[0]==ABORT and i<D for i,x in enumerate(log)): r.add(2)
    if any(x[2]==2 for x in log): r.add(3)
    if s[13][0]==3 and s[13][4]&1: r.add(4)
    return r
def tidy(s):                           # what nobody will ask for any more is zeroed: fewer states
    bt,log,V,vd,vs=s[:5]
    for i,r in enumerate(log):
        if r[0]<3 and bt[r[0]][0]==9 and bt[r[0]]!=(9,0,0) and (i<V or (vd>>i)&1 or r[2]==2): b=r[0]; bt=bt[:b]+((9,0,0),)+bt[b+1:]
    return s if bt is s[0] else (bt,)+s[1:]
def explore(limit=10**9,**kw):
    c=dict(DESIGN,**kw); images.clear()
    init=(((0,0,0),)*c['batches'],(),0,0,0,None,0,0,0,0,0,0,None,(0,0,0,0,0),0)
    seen={init:None}; q=deque([init]); ni=0; t=time.time()
    got=set()
    def trace(s,last):
        tr=[last]
        while seen[s] is not None: s,l=seen[s]; tr.append(l)
        return tr[::-1]
    while q:
        s=q.popleft()
        for label,x,bad in successors(s,c):
            if bad: return bad,len(seen),ni,trace(s,label),time.time()-t
            if x in seen: continue
            x=tidy(x)
            if x in seen: continue
            seen[x]=(s,label); q.append(x)
            if c['reach'] and len(seen)%7==0: got|=reach(x)
            if c['look']=='crash':
                bad,n=crash(x,c); ni+=n
                if bad: return bad,len(seen),ni,trace(x,'CRASH'),time.time()-t
        if len(seen)>limit: return 'LIMIT',len(seen),ni,[],time.time()-t
    if c['reach']: print('    reached:',', '.join(REACH[i] for i in sorted(got)))
    return None,len(seen),ni,[],time.time()-t
TABLE=[  # what is changed, what is expected (None: holds)
 (dict(),'design'),(dict(mode='ASYNC'),'design'),(dict(look='run'),'design'),(dict(look='run',mode='ASYNC'),'design'),
 (dict(twin=0),'found'),                                       # one cut record instead of two
 (dict(control='void'),'found'),                               # "everything from V to here" read to include abort and fence records
 (dict(look='run',mode='ASYNC',fence_at='outside'),'found'),   # V read in the section, record reserved after it
 (dict(look='run',mode='ASYNC',void_by='state'),'found'),      # void = state of published batches, not the position
 (dict(look='run',close_fenced=0),'found'),                    # rule 3 read without closing: a fenced holder promises at once
 (dict(claim=1,renew=0),'found'),(dict(claim=1,renew=0,handshake='durable'),'holds'),
 (dict(look='run',strict=1),'found'),
 (dict(look='run',handshake='none',spare=1),'found'),(dict(look='run',handshake='any',spare=1),'found'),
 (dict(look='run',mode='ASYNC',handshake='none'),'holds'),(dict(look='run',mode='ASYNC',handshake='any'),'holds'),(dict(look='run',mode='ASYNC',close_normal=0),'holds'),(dict(handshake='none'),'holds'),
 (dict(look='run',handshake='none',close_normal=0),'found'),
 (dict(look='run',close_promise=0),'found'),(dict(look='run',reader='none'),'found'),(dict(look='run',decide='after'),'found'),(dict(look='run',mode='ASYNC',order='own'),'found'),
 (dict(answer='reserved'),'found'),(dict(answer='own'),'found'),(dict(range='open'),'found'),(dict(hole='honoured'),'found'),
 (dict(cut='same'),'found'),(dict(trust='unsynced'),'found'),(dict(rule='old'),'found'),(dict(rule='lenient'),'found'),(dict(sync='after'),'found')]
def job(x):
    kw,want=x; bad,n,ni,tr,t=explore(**kw)
    return kw,want,bad,n,ni,tr,t
if __name__=='__main__':
    if len(sys.argv)==1:
        import multiprocessing
        wrong=0
        with multiprocessing.Pool(2,maxtasksperchild=1) as pool:
            for kw,want,bad,n,ni,tr,t in pool.imap(job,TABLE,chunksize=1):
                ok=(bad is not None)==(want=='found'); wrong+=not ok
                print('%-4s %-62s %9d states %9d images %5.1f s  %s%s'%('ok' if ok else 'WRONG',' '.join('%s=%s'%i for i in kw.items()) or 'as designed, SYNC, crash',n,ni,t,bad or 'no violation',', %d steps'%len(tr) if tr else ''),flush=True)
        sys.exit(wrong>0)
    kw={}
    for a in sys.argv[1:]:
        k,v=a.split('='); kw[k]=int(v) if v.isdigit() else tuple(map(int,v.split(','))) if ',' in v else v
    bad,n,ni,tr,t=explore(kw.pop('limit',10**9),**kw)
    print(kw,'states',n,'images',ni,'%.1f s'%t,bad or 'no violation','%d MB'%(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss//1024))
    for l in tr: print('   ',l)
